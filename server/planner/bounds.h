// What no plan of a mini-batch goes below.

#ifndef BATCHPLAN_SERVER_PLANNER_BOUNDS_H_
#define BATCHPLAN_SERVER_PLANNER_BOUNDS_H_

#include <cstdint>
#include <span>

#include "server/planner/cost.h"
#include "server/planner/index.h"
#include "server/planner/options.h"
#include "server/planner/pass_instance.h"
#include "server/planner/placement.h"

namespace batchplan {

struct MiniBatchBounds {
  // Over all ranks.
  uint64_t microbatches = 0;
  // Of LockstepBound or AccumulatedBound of what goes to one micro-batch or one rank whole, with the fixed
  // cost of the fewest micro-batches on a rank.
  Cost step_time = 0;
};

// Both bounds, of the mini-batch and the pass's constraints alone; what is already proven is not
// looked for again, nor more micro-batches than the placement, which is one of them, has.
// O(n log n).
MiniBatchBounds BoundsOf(const PassInstance& pass, std::span<const SequenceIndex> mini_batch,
                         Synchronization synchronization, const Placement& placement);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BOUNDS_H_
