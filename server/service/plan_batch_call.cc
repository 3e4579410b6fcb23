#include "server/service/plan_batch_call.h"

#include <cstdint>

#include "batchplan/v1/batch_planner.pb.h"
#include "server/service/message_bytes.h"

namespace batchplan {

PlanBatchCall::PlanBatchCall(const CallEnvironment& environment, const PlanBatchConfig& config,
                             const RawCall& raw)
    : UnaryCall({.name = "PlanBatch", .outline = OutlinePlanBatch}, environment, raw),
      config_(config) {}

void PlanBatchCall::Run() { Answer(Plan()); }

absl::StatusOr<CallAnswer> PlanBatchCall::Plan() {
  v1::PlanBatchRequest request;
  absl::Status status = ParseBytes(request_bytes(), &request);
  if (!status.ok()) return status;
  v1::PlanBatchResponse response;
  status = PlanBatch(config_, request, caller(), &response);
  if (!status.ok()) return status;
  absl::StatusOr<grpc::ByteBuffer> bytes = ToBytes(response);
  if (!bytes.ok()) return bytes.status();
  uint64_t microbatches = 0;
  for (const v1::PassPlan& pass : response.passes()) {
    microbatches += pass.metrics().microbatches();
  }
  return CallAnswer{.response = *bytes, .microbatches = microbatches};
}

}  // namespace batchplan
