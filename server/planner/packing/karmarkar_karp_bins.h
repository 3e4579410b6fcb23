// Karmarkar-Karp as a packer: bins of even load instead of as few as can be.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_KARMARKAR_KARP_BINS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_KARMARKAR_KARP_BINS_H_

#include "server/planner/packing/bins.h"

namespace batchplan {

// Divides the items by the largest differencing method (partition/karmarkar_karp.h) into k parts of
// even load, k from the volume bound. The method knows no capacity: the lightest items of an
// overfull part move to the least loaded part with room, and where there is none k grows by a
// thirty-second and the items are divided anew. O(n log n) a division.
Bins PackKarmarkarKarp(const PackItems& items, const BinLimits& limits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_KARMARKAR_KARP_BINS_H_
