// Modified first fit decreasing: long items get the companions that suit them before the rest is
// packed.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_MODIFIED_FIRST_FIT_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_MODIFIED_FIRST_FIT_H_

#include <cstdint>
#include <span>

#include "server/planner/packing/bins.h"

namespace batchplan {

// D. S. Johnson and M. R. Garey, "A 71/60 theorem for bin packing", Journal of Complexity 1 (1985):
// asymptotically at most 71/60 of the fewest bins, where first fit decreasing may take 11/9. With
// capacity C, items are large (> C/2), medium (> C/3), small (> C/6) or tiny.
//
// 1. One bin per large item, longest first.
// 2. Forward over these bins: the largest medium item that fits.
// 3. Backward over those without a medium item: if the two smallest small items fit together, the
//    smallest, then the largest small one that still fits.
// 4. Forward over all: while the smallest item left fits, the largest that fits.
// 5. First fit decreasing of what is left.
//
// O(n log n).
Bins PackModifiedFirstFitDecreasing(const PackItems& items, const BinLimits& limits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_MODIFIED_FIRST_FIT_H_
