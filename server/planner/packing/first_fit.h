// First fit: each item into the lowest-numbered bin that still holds it.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_FIRST_FIT_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_FIRST_FIT_H_

#include <cstdint>
#include <span>

#include "server/planner/packing/bins.h"

namespace batchplan {

// First fit of the items named by `order` (all, or some), in that order. O(n log n) by a tournament
// tree over the bins' room; where items are of several sequences and those are limited, up to O(n)
// more for an item that finds tokens and sequences in different bins. In decreasing order: at most
// 11/9 of the fewest bins plus 6/9 (Dosa 2007).
Bins PackFirstFit(std::span<const uint32_t> order, const PackItems& items, const BinLimits& limits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_FIRST_FIT_H_
