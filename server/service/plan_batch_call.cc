#include "server/service/plan_batch_call.h"

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
  const absl::Status status = ParseBytes(request_bytes(), &request);
  if (!status.ok()) return status;
  const absl::StatusOr<PlannedBatch> planned = PlanOrRecall(config_, &request, caller());
  if (!planned.ok()) return planned.status();
  const absl::StatusOr<grpc::ByteBuffer> response = planned->plan->Answer(planned->planning_time);
  if (!response.ok()) return response.status();
  CallAnswer answer = {.response = *response, .microbatches = planned->plan->summary.microbatches};
  if (config_.cache != nullptr) answer.recalled = planned->recalled;
  return answer;
}

}  // namespace batchplan
