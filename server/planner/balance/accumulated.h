// Micro-batches for accumulated synchronization: ranks meet once, after all of their slots.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_ACCUMULATED_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_ACCUMULATED_H_

#include <cstddef>
#include <cstdint>

#include "server/planner/packing/bins.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Bins for `ranks` ranks with `slots` slots each, such that the costliest rank costs little. Slot s
// of rank r is bin r * slots + s; an item's cost is its load. All bins are within the limits and
// none is empty. Inside a rank the bins have similar numbers of tokens where the limits leave the
// room.
//
// Only the sum of a rank's costs matters, so the items are first divided among the ranks with no
// regard to bins (EvenParts), and each share is packed. If a share can't be packed, or the limits
// are too tight to try, `start` is split into ranks * slots bins, which are divided among the ranks
// whole; then the costliest rank exchanges items with others, from bin to bin, within the limits
// (exchange_search.h). Ends once the costliest rank is within EvenTolerance of LargestSumBound
// (even_parts.h), or when the steps of the effort are used up. Once the allowance is spent or a
// stop requested, it ends soon with what it has by then.
//
// `start` is a packing of all items within the limits, into at most ranks * slots bins;
// ranks * slots <= items.size(); a total of loads below 2^62. Deterministic. O(n log n) and a
// bounded number of steps.
Bins BalanceAccumulated(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                        size_t slots, const Bins& start, Effort effort,
                        const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_ACCUMULATED_H_
