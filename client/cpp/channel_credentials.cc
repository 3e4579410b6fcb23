#include "client/cpp/channel_credentials.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

// How often gRPC looks whether the files have changed.
constexpr unsigned kRefreshSeconds = 60;

absl::Status CheckReadable(const char* field, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::ifstream file(path);
  // A directory opens, but has no first byte.
  if (file.peek() != std::ifstream::traits_type::eof()) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("RemoteOptions.", field, " is ", path, ", which can't be read or is empty"));
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::string token(absl::StripAsciiWhitespace(line));
  if (token.empty()) {
    return absl::UnauthenticatedError(absl::StrCat("RemoteOptions.token_file is ", path,
                                                   ", which can't be read or has no token"));
  }
  for (const char c : token) {
    // A header can't carry other characters. The message does not repeat the token.
    if (c <= ' ' || c >= '\x7f') {
      return absl::UnauthenticatedError(
          absl::StrCat("RemoteOptions.token_file is ", path,
                       ", whose first line must be one word of printable ASCII"));
    }
  }
  return token;
}

// Sends the file's token with each call.
class TokenFromFile final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit TokenFromFile(std::string path) : path_(std::move(path)) {
    made_.store(true, std::memory_order_release);
  }
  ~TokenFromFile() override { made_.load(std::memory_order_acquire); }

  // A local file of one line, not worth a thread.
  bool IsBlocking() const override { return false; }

  grpc::Status GetMetadata(grpc::string_ref /*service_url*/, grpc::string_ref /*method_name*/,
                           const grpc::AuthContext& /*channel*/,
                           std::multimap<std::string, std::string>* metadata) override {
    const absl::StatusOr<std::string> token = ReadToken(path_);
    if (!token.ok()) {
      return {grpc::StatusCode::UNAUTHENTICATED, std::string(token.status().message())};
    }
    metadata->emplace("authorization", "Bearer " + *token);
    return grpc::Status::OK;
  }

 private:
  const std::string path_;
  // Tells ThreadSanitizer that the constructor comes before the destructor, which runs on a thread
  // of gRPC. gRPC's own reference count orders them too, but ThreadSanitizer does not see it.
  std::atomic<bool> made_ = false;
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const RemoteOptions& options) {
  if (!options.tls.has_value()) return grpc::InsecureChannelCredentials();
  const TlsOptions& files = *options.tls;
  absl::Status readable = CheckReadable("tls.root_certificates", files.root_certificates);
  readable.Update(CheckReadable("tls.certificate", files.certificate));
  readable.Update(CheckReadable("tls.key", files.key));
  readable.Update(CheckTokenFile(options));
  if (!readable.ok()) return readable;

  grpc::experimental::TlsChannelCredentialsOptions tls;
  if (files.certificate.empty()) {
    tls.set_certificate_provider(
        std::make_shared<FileWatcherCertificateProvider>(files.root_certificates, kRefreshSeconds));
  } else {
    tls.set_certificate_provider(std::make_shared<FileWatcherCertificateProvider>(
        files.key, files.certificate, files.root_certificates, kRefreshSeconds));
    tls.watch_identity_key_cert_pairs();
  }
  tls.watch_root_certs();
  tls.set_certificate_verifier(std::make_shared<grpc::experimental::HostNameCertificateVerifier>());
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::experimental::TlsCredentials(tls);
  if (options.token_file.empty()) return credentials;
  return grpc::CompositeChannelCredentials(
      credentials,
      grpc::MetadataCredentialsFromPlugin(std::make_unique<TokenFromFile>(options.token_file)));
}

absl::Status CheckTokenFile(const RemoteOptions& options) {
  return options.token_file.empty() ? absl::OkStatus() : ReadToken(options.token_file).status();
}

}  // namespace batchplan
