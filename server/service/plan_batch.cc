#include "server/service/plan_batch.h"

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/batchplan/v1/convert.h"
#include "server/checker/check_plan.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

// Proves the plan's promises. A failure is a defect of ours, with the request's name in the log.
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

void Record(const v1::PlanBatchRequest& request, const Plan& plan, absl::Duration planning_time,
            Metrics* metrics) {
  PlanRecord record{
      .preset = request.preset(),
      .sequences = static_cast<uint64_t>(request.manifest().lengths_size()),
      .planning_seconds = absl::ToDoubleSeconds(planning_time),
  };
  for (const PassPlan& pass : plan.passes) {
    record.microbatches += pass.metrics.microbatches;
    record.true_tokens += pass.metrics.true_tokens;
    record.scheduled_tokens += pass.metrics.scheduled_tokens;
    record.naive_tokens += pass.metrics.naive_tokens;
    metrics->RecordPass({.bin_utilization = pass.metrics.bin_utilization,
                         .rank_cost_imbalance = pass.metrics.rank_cost_imbalance,
                         .step_efficiency = pass.metrics.step_efficiency});
  }
  metrics->RecordPlan(record);
}

}  // namespace

absl::Status PlanBatch(const PlanBatchConfig& config, const v1::PlanBatchRequest& request,
                       const Caller& caller, v1::PlanBatchResponse* response) {
  absl::Status waiting = caller.StillWaiting();
  if (!waiting.ok()) return waiting;

  const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
  if (!parsed.ok()) return parsed.status();

  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<Plan> plan = config.plan(parsed->manifest, parsed->options, caller.stop);
  const absl::Duration planning_time = absl::FromChrono(std::chrono::steady_clock::now() - start);

  // Before the planner's answer: that it was stopped says less than why.
  waiting = caller.StillWaiting();
  if (!waiting.ok()) return waiting;
  if (!plan.ok()) return plan.status();
  if (config.verify_plans) {
    absl::Status verified = Verify(request, *parsed, *plan, config.metrics);
    if (!verified.ok()) return verified;
  }

  FillResponse(*plan, planning_time, response);
  const size_t bytes = response->ByteSizeLong();
  if (bytes > config.max_message_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the plan takes ", bytes,
        " bytes, more than the server's max_message_bytes=", config.max_message_bytes));
  }
  Record(request, *plan, planning_time, config.metrics);
  return absl::OkStatus();
}

}  // namespace batchplan
