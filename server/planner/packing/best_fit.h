// Best fit: each item into the fullest bin that still holds it.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_BEST_FIT_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_BEST_FIT_H_

#include <cstdint>
#include <span>

#include "server/planner/packing/bins.h"

namespace batchplan {

// Best fit of the items named by `order`, in that order; of equally full bins the lowest-numbered.
// O(n log n), and as many times more as there are different numbers of sequences left in bins where
// items are of several sequences. In decreasing order as good as first fit: at most 11/9 of the
// fewest bins plus 4.
Bins PackBestFit(std::span<const uint32_t> order, const PackItems& items, const BinLimits& limits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_BEST_FIT_H_
