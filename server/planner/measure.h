// Stage 5, measure: how good a pass's plan is, and how good any could be.

#ifndef BATCHPLAN_SERVER_PLANNER_MEASURE_H_
#define BATCHPLAN_SERVER_PLANNER_MEASURE_H_

#include <span>

#include "server/planner/manifest.h"
#include "server/planner/options.h"
#include "server/planner/pass_instance.h"
#include "server/planner/plan.h"

namespace batchplan {

// What no plan of one mini-batch goes below.
struct MiniBatchBounds {
  // Over all ranks.
  uint64_t microbatches = 0;
  // Of its sequences.
  Cost costliest = 0;
};

// The bounds of a mini-batch under the pass's constraints.
MiniBatchBounds BoundsOf(const PassInstance& pass, std::span<const SequenceIndex> mini_batch);

// The metrics of `plan`, whose arrays are complete; `bounds` has one entry a mini-batch. The lower
// bound on step time is, for each mini-batch, the larger of the mean rank and the costliest
// sequence. O(n).
PlanMetrics Measure(const Manifest& manifest, Synchronization synchronization,
                    const PassInstance& pass, const PassPlan& plan,
                    std::span<const MiniBatchBounds> bounds);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_MEASURE_H_
