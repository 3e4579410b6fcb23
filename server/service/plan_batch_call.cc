#include "server/service/plan_batch_call.h"

#include "server/service/fitted_costs.h"
#include "server/service/limits.h"
#include "server/service/message_bytes.h"
#include "server/service/unknown_fields.h"

namespace batchplan {

PlanBatchCall::PlanBatchCall(const CallEnvironment& environment, const PlanBatchConfig& config,
                             JobFits* fits, const RawCall& raw)
    : UnaryCall({.name = "PlanBatch", .outline = OutlinePlanBatch}, environment, raw),
      config_(config),
      fits_(fits) {}

absl::Status PlanBatchCall::Queue() {
  absl::Status fits = CheckAnswerFits(outline(), config_.max_message_bytes);
  return fits.ok() ? QueueToPlan() : fits;
}

void PlanBatchCall::Run() {
  absl::Status status;
  if (stage_ == Stage::kParse)
    status = Parse();
  else if (stage_ == Stage::kSetCosts)
    status = SetCosts();
  else
    return Answer(Plan());
  if (!status.ok()) Answer(status);
}

absl::Status PlanBatchCall::Parse() {
  absl::Status status = ParseBytes(request_bytes(), &request_);
  status.Update(CheckOutlined(request_));
  status.Update(CheckFieldsKnown(request_));
  if (!status.ok()) return status;
  if (request_.cost_model().fitted()) {
    stage_ = Stage::kSetCosts;
    return QueueForStore();
  }
  Answer(Plan());
  return absl::OkStatus();
}

absl::Status PlanBatchCall::SetCosts() {
  absl::StatusOr<v1::CostModel> costs = FittedCostModel(fits_, request_);
  if (!costs.ok()) return costs.status();
  *request_.mutable_cost_model() = *std::move(costs);
  stage_ = Stage::kPlan;
  return QueueToPlan();
}

absl::StatusOr<CallAnswer> PlanBatchCall::Plan() {
  const absl::StatusOr<PlannedBatch> planned = PlanOrRecall(config_, &request_, caller());
  if (!planned.ok()) return planned.status();
  const absl::StatusOr<grpc::ByteBuffer> response = planned->plan->Answer(planned->planning_time);
  if (!response.ok()) return response.status();
  CallAnswer answer = {.response = *response,
                       .microbatches = planned->plan->summary.microbatches()};
  if (config_.cache != nullptr) answer.recalled = planned->recalled;
  answer.shared = planned->plan;
  return answer;
}

}  // namespace batchplan
