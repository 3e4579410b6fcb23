#include "server/service/grpc_log.h"

#include <grpc/support/log.h>

#include <string_view>

#include "server/telemetry/log.h"

namespace batchplan {
namespace {

// What gRPC says of a listener that a shutdown has closed before gRPC itself does.
constexpr std::string_view kStoppedListening = "Failed accept4: Invalid argument";

void WriteLine(gpr_log_func_args* args) {
  if (args->message == kStoppedListening) return;
  const std::string_view file = args->file;
  // gRPC calls an error what a client did wrong too, such as a failed handshake: ours are errors.
  const Severity severity =
      args->severity == GPR_LOG_SEVERITY_ERROR ? Severity::kWarning : Severity::kInfo;
  Log(severity, "grpc",
      {{"message", args->message},
       {"file", file.substr(file.rfind('/') + 1)},
       {"line", args->line}});
}

}  // namespace

void RouteGrpcLog() { gpr_set_log_function(&WriteLine); }

}  // namespace batchplan
