#include "server/service/planning/plan_batch.h"

#include <google/protobuf/util/time_util.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/batchplan/v1/convert.h"
#include "server/checker/check_plan.h"
#include "server/service/admission/request_limits.h"
#include "server/service/planning/plan_observers.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

// Checks that the plan keeps its promises. A failure is our defect, and is logged with the
// request's id.
absl::Status Verify(const v1::PlanBatchRequest& request, const ParsedRequest& parsed,
                    const Plan& plan, Metrics* metrics) {
  absl::Status status = CheckPlan(parsed.manifest, parsed.options, plan);
  if (status.ok()) return status;
  const std::string message(status.message());
  metrics->RecordCheckFailure();
  Log(Severity::kError, "plan_check_failed",
      {{"request_id", request.request_id()},
       {"job", request.job_id()},
       {"step", request.step()},
       {"fingerprint", plan.fingerprint},
       {"error", message}});
  return absl::InternalError(
      absl::StrCat("a defect in batchplan: the plan breaks a promise: ", message));
}

absl::StatusOr<Plan> PlanWithinLimit(const PlanBatchConfig& config, const ParsedRequest& parsed,
                                     const std::stop_token& stop) {
  if (config.limit == nullptr) return config.plan(parsed.manifest, parsed.options, stop);
  const PlanningLimit::Watch watch(config.limit, stop);
  absl::StatusOr<Plan> plan = config.plan(parsed.manifest, parsed.options, watch.stop());
  if (plan.ok() || !watch.over()) return plan;
  config.observers.metrics->RecordRefusal(Refusal::kTooLong);
  return config.limit->Error();
}

}  // namespace

absl::Status PlanBatch(const PlanBatchConfig& config, const v1::PlanBatchRequest& request,
                       const Caller& caller, v1::PlanBatchResponse* response) {
  absl::Status waiting = caller.StillWaiting();
  if (!waiting.ok()) return waiting;

  const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
  if (!parsed.ok()) return parsed.status();

  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<Plan> plan = PlanWithinLimit(config, *parsed, caller.stop);
  const absl::Duration planning_time = absl::FromChrono(std::chrono::steady_clock::now() - start);

  // Checked before the planner's status, which only says that planning was stopped.
  waiting = caller.StillWaiting();
  if (!waiting.ok()) return waiting;
  if (!plan.ok()) return plan.status();
  if (config.verify_plans) {
    absl::Status verified = Verify(request, *parsed, *plan, config.observers.metrics);
    if (!verified.ok()) return verified;
  }

  FillResponse(*plan, planning_time, response);
  return absl::OkStatus();
}

absl::StatusOr<PlannedBatch> PlanOrRecall(const PlanBatchConfig& config,
                                          v1::PlanBatchRequest* request, const Caller& caller) {
  const auto start = std::chrono::steady_clock::now();
  std::optional<PlanKey> key;
  PlannedBatch planned;
  if (config.cache != nullptr) {
    key = config.cache->KeyFor(request);
    planned.plan = config.cache->Find(key);
  }
  if (planned.plan != nullptr) {
    planned.recalled = true;
    planned.planning_time = absl::FromChrono(std::chrono::steady_clock::now() - start);
    ObservePlan(config.observers, *request, planned.plan, planned.planning_time);
    return planned;
  }
  v1::PlanBatchResponse response;
  absl::Status status = PlanBatch(config, *request, caller, &response);
  status.Update(CheckSendable(response.ByteSizeLong(), config.max_message_bytes));
  if (!status.ok()) return status;
  planned.planning_time = absl::Nanoseconds(
      google::protobuf::util::TimeUtil::DurationToNanoseconds(response.planning_time()));
  absl::StatusOr<std::shared_ptr<const CachedPlan>> made =
      MakeCachedPlan(*request, std::move(response));
  if (!made.ok()) return made.status();
  planned.plan = *std::move(made);
  if (config.cache != nullptr) config.cache->Insert(key, planned.plan);
  ObservePlan(config.observers, *request, planned.plan, planned.planning_time);
  return planned;
}

}  // namespace batchplan
