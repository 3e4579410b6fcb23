// The greedy split of the sorted order, as NeMo-RL's and ROLL's dynamic batching do it.

#ifndef BATCHPLAN_SERVER_PLANNER_PADDED_SORTED_SCAN_H_
#define BATCHPLAN_SERVER_PLANNER_PADDED_SORTED_SCAN_H_

#include <cstddef>
#include <span>

#include "server/planner/padded/padded_items.h"

namespace batchplan {

// Walks the items by ascending width and closes a run when the next item would break a limit. No
// split of the sorted order has fewer runs; with one sequence an item, no split at all. O(n).
Cuts SortedScan(const PaddedItems& items, const PaddedLimits& limits);

// The same for ranks that share their runs and widths: run m of every rank is the same positions,
// its width the longest on any rank. All ranks have the same number of items, and each position
// fits alone. O(n).
Cuts SharedSortedScan(std::span<const PaddedItems> ranks, const PaddedLimits& limits);

// Halves runs, those with the most padded tokens first and the smaller half in front, until there
// are `runs`, between cuts.size() - 1 and the number of items. `ranks` as above; one for a rank
// alone. O(n log n).
Cuts HalveRuns(std::span<const PaddedItems> ranks, const Cuts& cuts, size_t runs);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_SORTED_SCAN_H_
