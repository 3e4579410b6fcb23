// What is recorded of a plan and of a fit.

#ifndef BATCHPLAN_SERVER_TELEMETRY_PLAN_RECORD_H_
#define BATCHPLAN_SERVER_TELEMETRY_PLAN_RECORD_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace batchplan {

// Of each pass of a plan; as in PlanMetrics where it has them. None is negative: Prometheus takes
// a sum that falls for one that began anew.
struct PassRecord {
  uint64_t microbatches = 0;
  uint64_t lower_bound_microbatches = 0;
  uint64_t true_tokens = 0;
  uint64_t scheduled_tokens = 0;
  uint64_t naive_tokens = 0;
  // That the micro-batches have room for.
  uint64_t budget_tokens = 0;
  double bin_utilization = 0;
  double bin_spread = 0;
  double packing_efficiency = 0;
  double padding_removed = 0;
  double rank_cost_imbalance = 0;
  double step_efficiency = 0;
  double step_time_over_bound = 0;
};

struct PlanRecord {
  // As the client has it.
  std::string_view job_id = {};
  std::string_view preset = {};
  uint64_t sequences = 0;
  double planning_seconds = 0;
  std::span<const PassRecord> passes = {};
};

struct FitRecord {
  double seconds_per_token = 0;
  double seconds_per_token_squared = 0;
  double seconds_per_microbatch = 0;
  double error_ratio = 0;
  uint64_t samples = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_PLAN_RECORD_H_
