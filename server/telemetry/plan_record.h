// What is recorded of a plan, of a fit and of a measured step.

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

// The sizes of context-parallel groups that metrics tell apart: the powers of two up to 65536,
// which is the limit, and in the last place all other sizes.
inline constexpr size_t kContextSizes = 18;

// The place of a size, at least 1, among these.
constexpr size_t ContextSizePlace(uint64_t ranks) {
  return std::has_single_bit(ranks)
             ? std::min(static_cast<size_t>(std::countr_zero(ranks)), kContextSizes - 1)
             : kContextSizes - 1;
}

// The value of the label context_parallel for a place.
inline std::string ContextSizeLabel(size_t place) {
  return place + 1 < kContextSizes ? std::to_string(1U << place) : "other";
}

// Of the groups of one size.
struct GroupsRecord {
  uint64_t groups = 0;
  // With all padding.
  uint64_t tokens = 0;
};

// Of one pass of a plan.
struct PassRecord {
  // As the planner measured it.
  PlanMetrics metrics = {};
  // What the micro-batches have room for: each one's max_tokens_per_microbatch, or the length of a
  // longer sequence that runs alone; with groups that differ in size their part of it.
  uint64_t budget_tokens = 0;
  // Ranks are pipelines of several stages.
  bool on_pipelines = false;
  // The largest load over its limit, of the load that comes closest to it; none without limits.
  std::optional<double> load_limit_use = std::nullopt;
  // By ContextSizePlace, with groups that differ in size (Topology.dynamic_context); else nothing.
  std::array<GroupsRecord, kContextSizes> groups = {};

  // Tokens of the rows without padding, and the least that any plan has: all of them where the pass
  // has nothing to share, for which its metrics say 0.
  uint64_t laid_tokens() const {
    return metrics.laid_tokens > 0 ? metrics.laid_tokens : metrics.true_tokens;
  }
  uint64_t unique_tokens() const {
    return metrics.unique_tokens > 0 ? metrics.unique_tokens : metrics.true_tokens;
  }

  // Metrics that are exported in another form. None is negative: Prometheus treats a sum that falls
  // as one that restarted from 0.
  double bin_spread() const { return 1 - metrics.bin_balance; }
  double padding_removed() const { return std::max(0.0, metrics.padding_removed); }
  double pipeline_bubble() const { return std::max(0.0, metrics.pipeline_bubble); }
  // Of the load whose ranks differ most; none without loads.
  std::optional<double> load_imbalance() const {
    std::optional<double> most;
    for (const LoadMetrics& load : metrics.loads) {
      most = std::max(most.value_or(1), load.rank_imbalance);
    }
    return most;
  }
  // 1 where sequences cost nothing: there no plan is better than another.
  double step_time_over_bound() const {
    return metrics.lower_bound_step_time > 0
               ? metrics.predicted_step_time / metrics.lower_bound_step_time
               : 1;
  }
};

// Of a plan of what waits.
struct WaitingRecord {
  uint64_t deferred = 0;
  uint64_t expired = 0;
  // Of what is trained, where ages were given.
  std::optional<double> mean_age = std::nullopt;

  uint64_t not_planned() const { return deferred + expired; }
  bool any() const { return deferred > 0 || expired > 0 || mean_age.has_value(); }
};

struct PlanRecord {
  // As the client sent it.
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
  // What ranks exchange for a token (CostModel.exchange), by ContextSizePlace; of sizes in one
  // place the largest one's. None where that was not fitted.
  std::array<std::optional<double>, kContextSizes> seconds_exchanged_per_token = {};
  // A unit of each load, by its name.
  std::map<std::string, double, std::less<>> seconds_per_load_unit = {};
  double error_ratio = 0;
  uint64_t samples = 0;
};

// Of a step that was reported as a whole.
struct StepRecord {
  double measured_seconds = 0;
  // The part of it in which ranks waited for slower ones, on average over them.
  double waited_ratio = 0;
  // 0: not known.
  double predicted_seconds = 0;

  // How far the prediction was off, as a part of what was measured, either way.
  double prediction_error_ratio() const {
    return std::abs(predicted_seconds / measured_seconds - 1);
  }
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_TELEMETRY_PLAN_RECORD_H_
