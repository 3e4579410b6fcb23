// Splits of the sorted order whose costliest runs cost little.

#ifndef BATCHPLAN_SERVER_PLANNER_PADDED_LEVEL_SPLIT_H_
#define BATCHPLAN_SERVER_PLANNER_PADDED_LEVEL_SPLIT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/allowance.h"
#include "server/planner/padded/padded_items.h"

namespace batchplan {

// In what follows, `costs` has, for each item, the cost of one sequence of its width, so they
// ascend; a run costs its sequences times the cost at its last item. All sequences together times
// the widest's cost are below 2^62. Needs SortedScan's number of runs <= runs <= items.size(), runs
// >= 1.

// Of all splits into exactly `runs` runs within the limits, one whose costliest run is cheapest:
// the least level at which a scan from the front, as far as limits and level allow, needs no more
// runs, then runs halved, the costliest first, up to the number. O(n + runs log n log cost). Once a
// stop is requested it ends soon, with some split.
Cuts LevelSplit(const PaddedItems& items, std::span<const uint64_t> costs,
                const PaddedLimits& limits, size_t runs, const Allowance& allowance = {});

// The costs of a split's runs.
std::vector<uint64_t> RunCosts(const PaddedItems& items, std::span<const uint64_t> costs,
                               const Cuts& cuts);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_LEVEL_SPLIT_H_
