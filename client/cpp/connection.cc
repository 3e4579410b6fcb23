#include "batchplan/connection.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

absl::Status NeedsServer(const char* method) {
  return absl::FailedPreconditionError(
      absl::StrCat(method,
                   " needs a server, and this connection has none: the workers of a job "
                   "meet there; use a remote connection"));
}

}  // namespace

absl::StatusOr<v1::JoinBatchResponse> Connection::JoinBatch(const v1::JoinBatchRequest& /*request*/,
                                                            const CallOptions& /*options*/) {
  return NeedsServer("JoinBatch");
}

absl::StatusOr<v1::ReportStepResponse> Connection::ReportStep(
    const v1::ReportStepRequest& /*request*/, const CallOptions& /*options*/) {
  return NeedsServer("ReportStep");
}

}  // namespace batchplan
