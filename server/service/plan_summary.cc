#include "server/service/plan_summary.h"

#include <algorithm>
#include <cmath>

namespace batchplan {
namespace {

// What `part` is a share of.
uint64_t WholeOf(uint64_t part, double share) {
  return share > 0 ? static_cast<uint64_t>(std::llround(static_cast<double>(part) / share)) : 0;
}

PassRecord Record(const v1::PlanMetrics& metrics) {
  return {
      .microbatches = metrics.microbatches(),
      .lower_bound_microbatches = metrics.lower_bound_microbatches(),
      .true_tokens = metrics.true_tokens(),
      .scheduled_tokens = metrics.scheduled_tokens(),
      .naive_tokens = metrics.naive_tokens(),
      .budget_tokens = WholeOf(metrics.true_tokens(), metrics.bin_utilization()),
      .bin_utilization = metrics.bin_utilization(),
      .bin_spread = 1 - metrics.bin_balance(),
      .packing_efficiency = metrics.packing_efficiency(),
      .padding_removed = std::max(0.0, metrics.padding_removed()),
      .rank_cost_imbalance = metrics.rank_cost_imbalance(),
      .step_efficiency = metrics.step_efficiency(),
      // Where sequences cost nothing, no plan is better than another.
      .step_time_over_bound = metrics.lower_bound_step_time() > 0
                                  ? metrics.predicted_step_time() / metrics.lower_bound_step_time()
                                  : 1};
}

}  // namespace

uint64_t PlanSummary::microbatches() const {
  uint64_t sum = 0;
  for (const PassRecord& pass : passes) sum += pass.microbatches;
  return sum;
}

PlanSummary Summarize(const v1::PlanBatchResponse& response) {
  PlanSummary summary;
  summary.passes.reserve(static_cast<size_t>(response.passes_size()));
  for (const v1::PassPlan& pass : response.passes()) {
    summary.passes.push_back(Record(pass.metrics()));
  }
  return summary;
}

}  // namespace batchplan
