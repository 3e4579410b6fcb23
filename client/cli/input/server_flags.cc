#include "client/cli/input/server_flags.h"

#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace batchplan::cli {
namespace {

constexpr char kGroup[] = "Where";

absl::Duration ParseTimeout(const std::string& text) {
  absl::Duration timeout;
  if (!absl::ParseDuration(text, &timeout) || timeout <= absl::ZeroDuration()) {
    throw CLI::ValidationError(
        "--timeout", absl::StrCat("\"", text, "\" is not a duration, such as 500ms, 10s or 2m"));
  }
  return timeout;
}

}  // namespace

CLI::Option* ServerFlags::AddTo(CLI::App* app, const std::string& server_description) {
  CLI::Option* where = app->add_option("--server", server, server_description)
                           ->type_name("HOST:PORT")
                           ->group(kGroup);
  app->add_option_function<std::string>(
         "--timeout", [this](const std::string& text) { timeout = ParseTimeout(text); },
         "Give up after this, such as 10s; until then a server that can't be reached is tried "
         "again "
         "[30s with --server]")
      ->type_name("DURATION")
      ->group(kGroup);
  CLI::Option* ca = app->add_option("--tls_ca", tls.root_certificates,
                                    "Speak TLS; trust servers whose certificate these authorities "
                                    "signed, a PEM file [plain text]")
                        ->type_name("FILE")
                        ->needs(where)
                        ->group(kGroup);
  CLI::Option* certificate =
      app->add_option("--tls_certificate", tls.certificate,
                      "The caller's certificate, for servers that ask for one, a PEM file")
          ->type_name("FILE")
          ->needs(ca)
          ->group(kGroup);
  CLI::Option* key = app->add_option("--tls_key", tls.key, "The key of --tls_certificate")
                         ->type_name("FILE")
                         ->needs(certificate)
                         ->group(kGroup);
  certificate->needs(key);
  app->add_option("--tls_server_name", tls.server_name,
                  "The name in the server's certificate [the HOST of --server]")
      ->type_name("NAME")
      ->needs(ca)
      ->group(kGroup);
  app->add_option("--token_file", token_file,
                  "A file with the bearer token that the server asks for; with --tls_ca only")
      ->type_name("FILE")
      ->needs(ca)
      ->group(kGroup);
  return where;
}

RemoteOptions ServerFlags::remote_options() const {
  RemoteOptions options;
  if (timeout.has_value()) options.default_timeout = *timeout;
  if (!tls.root_certificates.empty()) options.tls = tls;
  options.token_file = token_file;
  return options;
}

CallOptions ServerFlags::call_options() const {
  CallOptions options;
  options.timeout = timeout;
  return options;
}

}  // namespace batchplan::cli
