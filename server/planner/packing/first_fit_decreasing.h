// First fit decreasing.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_FIRST_FIT_DECREASING_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_FIRST_FIT_DECREASING_H_

#include <cstddef>

#include "server/planner/packing/bins.h"
#include "server/planner/packing/decreasing.h"

namespace batchplan {

// PackFirstFit in decreasing order. O(n) and, for every run of alike bins that a length changes, a
// logarithm to base 64 (bin_runs.h); n words of memory beside the result, and four for each change.
// Where items are of several sequences, PackFirstFit itself.
Bins PackFirstFitDecreasing(const PackItems& items, const BinLimits& limits);

// The same of items of one sequence each that are sorted already and need at most `most_bins`.
Bins PackFirstFitDecreasing(const DecreasingItems& items, const BinLimits& limits,
                            size_t most_bins);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_FIRST_FIT_DECREASING_H_
