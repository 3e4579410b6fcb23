#include "server/service/plan_summary.h"

namespace batchplan {

PlanSummary Summarize(const v1::PlanBatchResponse& response) {
  PlanSummary summary;
  for (const v1::PassPlan& pass : response.passes()) {
    const v1::PlanMetrics& metrics = pass.metrics();
    summary.microbatches += metrics.microbatches();
    summary.true_tokens += metrics.true_tokens();
    summary.scheduled_tokens += metrics.scheduled_tokens();
    summary.naive_tokens += metrics.naive_tokens();
    summary.passes.push_back({.bin_utilization = metrics.bin_utilization(),
                              .rank_cost_imbalance = metrics.rank_cost_imbalance(),
                              .step_efficiency = metrics.step_efficiency()});
  }
  return summary;
}

void RecordPlan(const v1::PlanBatchRequest& request, const PlanSummary& summary,
                absl::Duration planning_time, Metrics* metrics) {
  for (const PassRecord& pass : summary.passes) metrics->RecordPass(pass);
  metrics->RecordPlan({.preset = request.preset(),
                       .sequences = static_cast<uint64_t>(request.manifest().lengths_size()),
                       .planning_seconds = absl::ToDoubleSeconds(planning_time),
                       .microbatches = summary.microbatches,
                       .true_tokens = summary.true_tokens,
                       .scheduled_tokens = summary.scheduled_tokens,
                       .naive_tokens = summary.naive_tokens});
}

}  // namespace batchplan
