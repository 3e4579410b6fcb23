// What no assignment of a mini-batch's micro-batches to ranks goes below, in predicted step time.
//
// Costs are items.loads, with a total below 2^63; lengths are in 1 .. limits.capacity. The cost of
// a micro-batch is the sum over its items, at least: what rows pad comes on top, and in the padded
// layout, where a micro-batch of n sequences is n * width <= capacity, the sum of lengths stays
// within the capacity too and the costs are higher. So a bound for the packed layout holds for the
// padded one. The fixed cost of a micro-batch is left out; the caller adds it.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_STEP_TIME_BOUND_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_STEP_TIME_BOUND_H_

#include <cstdint>

#include "server/planner/packing/bins.h"

namespace batchplan {

// A lower bound on the sum over slots of the maximum over ranks of a micro-batch's cost, over all
// packings into any number of slots of `ranks` micro-batches each, some of which may be empty. At
// least AccumulatedBound. The proof is in the source. O(n log n), and the sort falls away where
// sequences cost the more the longer they are.
uint64_t LockstepBound(const PackItems& items, const BinLimits& limits, uint32_t ranks);

// A lower bound on the maximum over ranks of the sum of its costs, over all assignments of items to
// ranks (partition/part_bound.h). O(n log n), as above.
uint64_t AccumulatedBound(const PackItems& items, uint32_t ranks);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_STEP_TIME_BOUND_H_
