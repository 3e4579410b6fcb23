// Concatenation: items in order, a new bin when the next one would overflow the last.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_CONCATENATIVE_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_CONCATENATIVE_H_

#include <cstdint>
#include <span>

#include "server/planner/packing/bins.h"

namespace batchplan {

// O(n). Less than twice the fewest bins, and the manifest's order is kept.
Bins PackConcatenative(const PackItems& items, const BinLimits& limits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_CONCATENATIVE_H_
