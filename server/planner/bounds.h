// What no plan of a mini-batch goes below.

#ifndef BATCHPLAN_SERVER_PLANNER_BOUNDS_H_
#define BATCHPLAN_SERVER_PLANNER_BOUNDS_H_

#include <cstdint>
#include <span>

#include "server/planner/assign/assignment.h"
#include "server/planner/cost.h"
#include "server/planner/index.h"
#include "server/planner/options.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

struct MiniBatchBounds {
  // Over all ranks.
  uint64_t microbatches = 0;
  // Of LockstepBound or AccumulatedBound of what shares a micro-batch or a rank, with the fixed
  // cost of the fewest micro-batches on a rank.
  Cost step_time = 0;
};

// Both bounds, of the mini-batch and the pass's constraints alone; what is already proven is not
// looked for again, nor more micro-batches than the assignment, which is one of them, has.
// O(n log n).
MiniBatchBounds BoundsOf(const PassInstance& pass, std::span<const SequenceIndex> mini_batch,
                         Synchronization synchronization, const Assignment& assignment);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BOUNDS_H_
