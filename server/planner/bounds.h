// What no plan of a mini-batch goes below.

#ifndef BATCHPLAN_SERVER_PLANNER_BOUNDS_H_
#define BATCHPLAN_SERVER_PLANNER_BOUNDS_H_

#include <cstdint>
#include <span>

#include "server/planner/cost.h"
#include "server/planner/index.h"
#include "server/planner/options.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// A lower bound on the step time of a mini-batch, the fixed costs of its micro-batches included:
// LockstepBound or AccumulatedBound of what shares a micro-batch or a rank, and the fixed cost of
// the fewest micro-batches on a rank. O(n log n).
Cost StepTimeBound(const PassInstance& pass, std::span<const SequenceIndex> mini_batch,
                   Synchronization synchronization);

struct MiniBatchBounds {
  // Over all ranks.
  uint64_t microbatches = 0;
  Cost step_time = 0;
};

// Both bounds, of the mini-batch and the pass's constraints alone; `fewest_proven` micro-batches
// over all ranks are known to be needed.
MiniBatchBounds BoundsOf(const PassInstance& pass, std::span<const SequenceIndex> mini_batch,
                         Synchronization synchronization, uint64_t fewest_proven = 0);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BOUNDS_H_
