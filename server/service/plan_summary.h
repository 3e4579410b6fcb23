// What logs and metrics say of a plan.

#ifndef BATCHPLAN_SERVER_SERVICE_PLAN_SUMMARY_H_
#define BATCHPLAN_SERVER_SERVICE_PLAN_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "server/telemetry/metrics.h"

namespace batchplan {

struct PlanSummary {
  // Sums over the passes.
  uint64_t microbatches = 0;
  uint64_t true_tokens = 0;
  uint64_t scheduled_tokens = 0;
  uint64_t naive_tokens = 0;
  std::vector<PassRecord> passes;
};

PlanSummary Summarize(const v1::PlanBatchResponse& response);

// Counts a plan that was answered to `request` after `planning_time`.
void RecordPlan(const v1::PlanBatchRequest& request, const PlanSummary& summary,
                absl::Duration planning_time, Metrics* metrics);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLAN_SUMMARY_H_
