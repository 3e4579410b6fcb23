// Bins split until there are as many as are needed.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_SPLIT_BINS_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_SPLIT_BINS_H_

#include <cstddef>

#include "server/planner/items.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

// Raises the number of bins to `target`, at most items.size(), by splitting: the sequences of the
// cheapest bins, as many as end in the last `group` or the new ones, are spread evenly over
// themselves and the new bins (longest processing time first, within the limits). Full bins stay
// full and the thin ones become alike, where halving one bin at a time would leave some twice as
// costly as others. Where the limits leave no room to spread, the costliest bins are halved.
Bins SplitToCount(const Bins& bins, size_t target, size_t group, const Items& items,
                  const BinLimits& limits);

// Raises the number of bins to `target`, at most items.size(), by halving the costliest bin of two
// items or more, again and again.
Bins HalveCostliest(const Bins& bins, size_t target, const Items& items);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_SPLIT_BINS_H_
