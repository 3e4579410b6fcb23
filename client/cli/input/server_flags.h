// How a command reaches a server: --server, --timeout, and who is trusted and who calls.
//
//   ServerFlags flags;
//   flags.AddTo(command, "Plan there [plan in this process]");
//   ... once parsed ...
//   Client client(MakeRemoteConnection(flags.server, flags.remote_options()));

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_SERVER_FLAGS_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_SERVER_FLAGS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "batchplan/client.h"

namespace batchplan::cli {

// Must outlive the parse.
struct ServerFlags {
  // Empty if the flag was not given.
  std::string server;
  // As for RemoteOptions; without --tls_ca the channel is plain text.
  std::optional<absl::Duration> timeout;
  TlsOptions tls;
  std::string token_file;

  // Adds the flags, in the group "Where", and returns --server, for other flags to need. The
  // flags that say how to speak to a server need it; --timeout does not.
  CLI::Option* AddTo(CLI::App* app, const std::string& server_description);

  // RemoteOptions with what the flags say; call_options with the timeout, for any connection.
  RemoteOptions remote_options() const;
  CallOptions call_options() const;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_SERVER_FLAGS_H_
