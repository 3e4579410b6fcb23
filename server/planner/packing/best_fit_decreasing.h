// Best fit decreasing.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_BEST_FIT_DECREASING_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_BEST_FIT_DECREASING_H_

#include "server/planner/packing/bins.h"

namespace batchplan {

// PackBestFit in decreasing order. O(n) and, for every run of alike bins that a length changes, the
// logarithm of the number of runs whose room holds the same lengths (bin_runs.h); n words of memory
// beside the result, and four for each change. Where items are of several sequences, PackBestFit
// itself.
Bins PackBestFitDecreasing(const PackItems& items, const BinLimits& limits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_BEST_FIT_DECREASING_H_
