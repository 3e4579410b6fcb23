// What is recorded of plans, fits and measured steps.

#ifndef BATCHPLAN_SERVER_TELEMETRY_PLAN_RECORD_H_
#define BATCHPLAN_SERVER_TELEMETRY_PLAN_RECORD_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/planner/plan.h"

namespace batchplan {

// How many sizes of context-parallel groups metrics distinguish: powers of two up to 65536, the
// limit, and one place for all other sizes.
inline constexpr size_t kContextSizes = 18;

// The place of a size, which is at least 1.
constexpr size_t ContextSizePlace(uint64_t ranks) {
  return std::has_single_bit(ranks)
             ? std::min(static_cast<size_t>(std::countr_zero(ranks)), kContextSizes - 1)
             : kContextSizes - 1;
}

// The value of the label context_parallel for `place`.
inline std::string ContextSizeLabel(size_t place) {
  return place + 1 < kContextSizes ? std::to_string(1U << place) : "other";
}

// The groups of one size.
struct GroupsRecord {
  uint64_t groups = 0;
  // Including all padding.
  uint64_t tokens = 0;
};

// One pass of a plan.
struct PassRecord {
  // As measured by the planner.
  PlanMetrics metrics = {};
  // The room of the micro-batches: max_tokens_per_microbatch each, or the length of a longer
  // sequence that runs alone. If groups differ in size, their share of it.
  uint64_t budget_tokens = 0;
  // Whether ranks are pipelines of several stages.
  bool on_pipelines = false;
  // The largest load over its limit, for the load closest to its limit; none without limits.
  std::optional<double> load_limit_use = std::nullopt;
  // Indexed by ContextSizePlace; empty unless groups differ in size (Topology.dynamic_context).
  std::array<GroupsRecord, kContextSizes> groups = {};

  // The tokens of rows without padding, and the fewest that any plan can have. Both are all true
  // tokens if nothing is shared, for which the metrics have 0.
  uint64_t laid_tokens() const {
    return metrics.laid_tokens > 0 ? metrics.laid_tokens : metrics.true_tokens;
  }
  uint64_t unique_tokens() const {
    return metrics.unique_tokens > 0 ? metrics.unique_tokens : metrics.true_tokens;
  }

  // Metrics exported in another form. They are never negative, because Prometheus takes a falling
  // sum for a restart from 0.
  double bin_spread() const { return 1 - metrics.bin_balance; }
  double padding_removed() const { return std::max(0.0, metrics.padding_removed); }
  double pipeline_bubble() const { return std::max(0.0, metrics.pipeline_bubble); }
  // The imbalance of the load whose ranks differ most; none without loads.
  std::optional<double> load_imbalance() const {
    std::optional<double> most;
    for (const LoadMetrics& load : metrics.loads) {
      most = std::max(most.value_or(1), load.rank_imbalance);
    }
    return most;
  }
  // 1 if sequences cost nothing: then no plan is better than another.
  double step_time_over_bound() const {
    return metrics.lower_bound_step_time > 0
               ? metrics.predicted_step_time / metrics.lower_bound_step_time
               : 1;
  }
};

// What a plan leaves waiting.
struct WaitingRecord {
  uint64_t deferred = 0;
  uint64_t expired = 0;
  // The mean age of the trained sequences, if ages were given.
  std::optional<double> mean_age = std::nullopt;

  uint64_t not_planned() const { return deferred + expired; }
  bool any() const { return deferred > 0 || expired > 0 || mean_age.has_value(); }
};

struct PlanRecord {
  // As sent by the client.
  std::string_view job_id = {};
  std::string_view preset = {};
  uint64_t sequences = 0;
  double planning_seconds = 0;
  std::span<const PassRecord> passes = {};
  WaitingRecord waiting = {};
};

struct FitRecord {
  double seconds_per_token = 0;
  double seconds_per_token_squared = 0;
  double seconds_per_microbatch = 0;
  double seconds_per_sequence = 0;
  // The exchange of ranks for a token (CostModel.exchange), indexed by ContextSizePlace. If sizes
  // share a place, that of the largest one. None if it was not fitted.
  std::array<std::optional<double>, kContextSizes> seconds_exchanged_per_token = {};
  // The time for a unit of each load, keyed by name.
  std::map<std::string, double, std::less<>> seconds_per_load_unit = {};
  double error_ratio = 0;
  uint64_t samples = 0;
};

// A step that was reported as a whole.
struct StepRecord {
  double measured_seconds = 0;
  // The share of the step in which ranks waited for slower ones, averaged over ranks.
  double waited_ratio = 0;
  // 0 if unknown.
  double predicted_seconds = 0;

  // The absolute error of the prediction, as a share of the measured time.
  double prediction_error_ratio() const {
    return std::abs(predicted_seconds / measured_seconds - 1);
  }
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_PLAN_RECORD_H_
