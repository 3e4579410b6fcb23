// An estimate of a step before it is planned: a proven bound on its time, over the ideal time.

#ifndef BATCHPLAN_SERVER_PLANNER_SPLIT_STEP_ESTIMATE_H_
#define BATCHPLAN_SERVER_PLANNER_SPLIT_STEP_ESTIMATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "server/planner/pass/pass.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/loads.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/request/pass_limits.h"
#include "server/planner/request/sequence_groups.h"

namespace batchplan {

// Views what it is created from, which must outlive it.
class StepEstimate {
 public:
  // For batches, in this many mini-batches, of any sequences whose planned length is not 0. None if
  // a pass can't have that many mini-batches, or once a stop is requested.
  static std::optional<StepEstimate> Create(const Manifest& manifest, const PlanOptions& options,
                                            const PassLimits& limits, const PlannedLengths& planned,
                                            const Groups& groups, const SharedPrefixes& prefixes,
                                            const Loads& loads, size_t mini_batches,
                                            const std::stop_token& stop);

  // lower_bound_step_time, by BoundsWithoutCounts, over ideal_step_time, of all passes over a batch
  // of these sequences, at least one, ascending. Mini-batches are cut from them in this order,
  // whatever order the options ask for. Plans of `balanced` come close to this ratio. If it is at
  // least `enough`, any number from that to it. O(n log n).
  double operator()(std::span<const SequenceIndex> sequences, double enough) const;
  // The ticks of an estimate of this many sequences in this many mini-batches; the caller spends
  // them.
  uint64_t TicksOf(size_t sequences, size_t mini_batches) const;
  // The same bound of one mini-batch, over the passes that respect mini-batches.
  double TimeOf(std::span<const SequenceIndex> mini_batch) const;

 private:
  struct Time {
    double bound = 0;
    double ideal = 0;
  };

  StepEstimate(const PlanOptions& options, const Groups& groups, const std::stop_token& stop)
      : options_(&options), groups_(&groups), unlimited_(stop) {}
  Time Of(const Pass& pass, std::span<const SequenceIndex> mini_batch) const;
  // With the mean rank's time as the bound, which is found soon. Of a pass for which HasMeanTime.
  static Time MeanOf(const Pass& pass, std::span<const SequenceIndex> mini_batch);
  static bool HasMeanTime(const Pass& pass);
  // The bound over the ideal, with the times of time_of(pass, mini_batch).
  double Ratio(std::span<const SequenceIndex> sequences, const SequenceLists& cut,
               const auto& time_of) const;

  // The sequences cut in their order, by number or by groups.
  SequenceLists MiniBatchesOf(std::span<const SequenceIndex> sequences) const;

  const PlanOptions* options_;
  const Groups* groups_;
  // Without limit: estimates are compared, so none may be looser because less of the allowance is
  // left.
  Allowance unlimited_;
  std::vector<Pass> passes_;
  bool has_mean_times_ = false;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_STEP_ESTIMATE_H_
