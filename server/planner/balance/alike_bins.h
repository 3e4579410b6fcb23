// Many bins with next to no room to spare, filled alike, up to 64 at a time.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_ALIKE_BINS_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_ALIKE_BINS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "server/planner/balance/bin_filling.h"
#include "server/planner/packing/bins.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Whether so many items go into bins with so little room that FillAlike is quicker than longest
// processing time first, which mostly fails, and into so many slots that it is as good.
bool WorthFillingAlike(size_t items, uint64_t tokens, const BinLimits& limits, uint32_t ranks,
                       uint64_t slots);

// The bins of the task, as bins of ascending positions; none is empty. A layer is as many
// consecutive positions as a set has bins, and thus of items that are nearly the same. Sets are
// packed with whole layers, a few dozen thousand at most. Then each layer is dealt to the bins of
// its set, the heaviest item to the bin with the least cost so far, and so on, so that a set's bins
// differ by little. Where the items of a layer differ by too much for bins that full, the items of
// all such sets are packed one by one. Neither packing fills its first bins to the brim and leaves
// the last ones empty: room is spread as evenly as it can be, for searches that exchange items.
//
// Nothing if no such bins are found, if lengths do not descend with costs, or once a stop is
// requested. O(n).
std::optional<Bins> FillAlike(const SortedTask& task, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_ALIKE_BINS_H_
