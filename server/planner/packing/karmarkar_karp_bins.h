// Karmarkar-Karp as a packer: bins of even load instead of as few as can be.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_KARMARKAR_KARP_BINS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_KARMARKAR_KARP_BINS_H_

#include <cstddef>

#include "server/planner/allowance.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

// Divides the items by the largest differencing method (partition/karmarkar_karp.h) into k bins of
// even load, k the lower bound or `at_least` if that is more, and at most the number of items. The
// method knows no capacity: the lightest items of an overfull bin move to the least loaded bin with
// room, and where there is none k grows, by a thirty-second and then by ever more, and the items
// are divided anew. O(n log n) a division. Once a stop is requested it ends soon, with bins that
// are of no use.
Bins PackKarmarkarKarp(const PackItems& items, const BinLimits& limits, size_t at_least = 1,
                       const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_KARMARKAR_KARP_BINS_H_
