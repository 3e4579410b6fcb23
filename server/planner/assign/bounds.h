// What no placement of a mini-batch goes below.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_BOUNDS_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_BOUNDS_H_

#include <cstdint>
#include <limits>
#include <span>

#include "server/planner/allowance.h"
#include "server/planner/cost.h"
#include "server/planner/manifest.h"
#include "server/planner/options.h"
#include "server/planner/packing/bins.h"
#include "server/planner/pass.h"
#include "server/planner/placement.h"

namespace batchplan {

// How many micro-batches each rank has at least in any plan, equally many on all and as the pass's
// count rule allows. In the packed layout from the lower bounds of bin packing; in the padded
// layout from the fewest runs of the sorted order, which nothing beats. `possible`: a number that
// is known to suffice, above which no bound is looked for. O(n log n).
//
// Of a mini-batch, or of the items that a packed one consists of.
uint64_t FewestMicrobatchesPerRank(const Pass& pass, std::span<const SequenceIndex> mini_batch,
                                   uint64_t possible = std::numeric_limits<uint64_t>::max());

uint64_t FewestPackedPerRank(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                             const CountRule& counts,
                             uint64_t possible = std::numeric_limits<uint64_t>::max());

struct MiniBatchBounds {
  // Over all ranks.
  uint64_t microbatches = 0;
  // LockstepBound of the items or AccumulatedBound of the units, with the fixed cost of the fewest
  // micro-batches on a rank; of given ranks LockstepBoundOfRanks, or the costliest rank's sum. With
  // a pipeline, StepClock::Bound of that much work.
  Cost step_time = 0;
};

// What holds for every placement of the mini-batch under the pass's constraints. What `placement`,
// which is one of them, has proven is not worked out again, and no bound above its own number of
// micro-batches is looked for.
// O(n log n). In lockstep the bound is looser where the allowance does not afford a better one.
MiniBatchBounds BoundsOf(const Pass& pass, std::span<const SequenceIndex> mini_batch,
                         const Placement& placement, const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_BOUNDS_H_
