#include "server/grpc_log.h"

#include <grpcpp/version_info.h>

#include <string_view>

#include "server/telemetry/log.h"

// From version 1.65 on gRPC writes to Abseil's log, which older versions of Abseil don't have.
#if GRPC_CPP_VERSION_MAJOR > 1 || GRPC_CPP_VERSION_MINOR >= 65
#define BATCHPLAN_GRPC_LOGS_BY_ABSEIL
#include <absl/base/log_severity.h>
#include <absl/log/globals.h>
#include <absl/log/initialize.h>
#include <absl/log/log_entry.h>
#include <absl/log/log_sink.h>
#include <absl/log/log_sink_registry.h>
#else
#include <grpc/support/log.h>
#endif

namespace batchplan {
namespace {

void LogGrpcMessage(bool is_error, std::string_view message, std::string_view file, int line) {
  // gRPC says this of a listener that a shutdown has already closed.
  constexpr std::string_view kStoppedListening = "Failed accept4: Invalid argument";
  if (message == kStoppedListening) return;
  // gRPC also calls a client's mistake an error, such as a failed handshake. Our errors are our
  // own.
  Log(is_error ? Severity::kWarning : Severity::kInfo, "grpc",
      {{"message", message}, {"file", file.substr(file.rfind('/') + 1)}, {"line", line}});
}

#ifdef BATCHPLAN_GRPC_LOGS_BY_ABSEIL

class GrpcLogSink : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    LogGrpcMessage(entry.log_severity() >= absl::LogSeverity::kError, entry.text_message(),
                   entry.source_filename(), entry.source_line());
  }
};

#else

void LogGrpcArguments(gpr_log_func_args* args) {
  LogGrpcMessage(args->severity == GPR_LOG_SEVERITY_ERROR, args->message, args->file, args->line);
}

#endif

}  // namespace

void LogGrpcMessages() {
#ifdef BATCHPLAN_GRPC_LOGS_BY_ABSEIL
  absl::InitializeLog();
  // Abseil itself writes what ends the process, and no more.
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kFatal);
  // Never destroyed: messages come until the process ends.
  absl::AddLogSink(new GrpcLogSink);
#else
  gpr_set_log_function(&LogGrpcArguments);
#endif
}

}  // namespace batchplan
