// Loads into parts whose sums are as even as they can be made.
//
// A *load* is a number to be divided; a *part* is a set of loads, numbered from 0. Loads may be
// costs of items and parts ranks, or loads tokens and parts micro-batches.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_EVEN_PARTS_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_EVEN_PARTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/request/allowance.h"

namespace batchplan {

struct EvenPartsOptions {
  // Every part has equally many loads, within one where the parts do not divide them.
  bool equal_counts = false;
  // The fewest loads of a part; parts * least_each <= loads.size().
  uint32_t least_each = 0;
  Effort effort = Effort::kDefault;
  // Once it is spent or a stop requested, the searches end early.
  Allowance allowance = {};
};

// The part, 0 .. parts - 1, of each load, so that the largest sum is low: a greedy start
// (longest_first.h), the differencing method where there are few loads (packing/karmarkar_karp.h),
// exchanges between parts (exchange_search.h), and for a few dozen loads an exhaustive search. Ends
// within EvenTolerance of LargestSumBound, or earlier if the effort is used up. Needs parts >= 1
// and a total below 2^62. Deterministic. O(n log parts) and a bounded number of steps.
std::vector<uint32_t> EvenParts(std::span<const uint64_t> loads, uint32_t parts,
                                const EvenPartsOptions& options);

// How far above its bound the largest sum may stay: 1/2^11 of the bound with kFast, 1/2^16 with
// kDefault, nothing with kThorough.
uint64_t EvenTolerance(uint64_t bound, Effort effort);

// Steps of RefineParts for this many loads.
uint64_t RefineSteps(uint64_t loads, Effort effort);

// A lower bound on the largest sum of `parts` parts with at least `least_each` loads each (with
// equal counts, the number of loads in each part). The best of
// - the mean, rounded up;
// - the costliest load and the least_each - 1 cheapest, which share a part at best;
// - for every k, the k + 1 cheapest of the k * parts + 1 costliest loads, of which some part has
//   k + 1 (M. Dell'Amico and S. Martello, "Optimal scheduling of tasks on identical parallel
//   processors", 1995).
// Needs parts >= 1 and a total below 2^63; 0 if there are no loads. O(n).
uint64_t LargestSumBound(std::span<const uint64_t> descending_loads, uint32_t parts,
                         uint64_t least_each = 0);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_EVEN_PARTS_H_
