// The split of the sorted order that schedules the fewest tokens.

#ifndef BATCHPLAN_SERVER_PLANNER_PADDED_OPTIMAL_SPLIT_H_
#define BATCHPLAN_SERVER_PLANNER_PADDED_OPTIMAL_SPLIT_H_

#include <cstddef>

#include "server/planner/allowance.h"
#include "server/planner/padded/padded_items.h"

namespace batchplan {

// Of all splits into exactly `runs` runs within the limits, one that has the least sum of sequences
// times width. Needs SortedScan's number of runs <= runs <= items.size().
//
// Tokens of a run satisfy the Monge condition, so the least sum is convex in the number of runs: a
// price per run is searched for which that number is optimal, and each price costs one shortest
// path over the positions (A. Aggarwal, B. Schieber, T. Tokuyama, "Finding a minimum-weight k-link
// path in graphs with the concave Monge property", 1994). O(n log n log tokens) time, O(n) memory.
// Once a stop is requested it ends soon, with a split into any number of runs.
Cuts OptimalSplit(const PaddedItems& items, const PaddedLimits& limits, size_t runs,
                  const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_OPTIMAL_SPLIT_H_
