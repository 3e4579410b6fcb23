// What the largest sum of a partition can't be below.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_PART_BOUND_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_PART_BOUND_H_

#include <cstdint>
#include <span>

namespace batchplan {

// A lower bound on the largest sum of `parts` parts with `least_each` loads or more each; with
// equally many loads in every part, that many. The best of
// - the mean, rounded up;
// - the costliest load and the least_each - 1 cheapest, which share a part at best;
// - for every k, the k + 1 cheapest of the k * parts + 1 costliest loads, of which some part has
//   k + 1 (M. Dell'Amico and S. Martello, "Optimal scheduling of tasks on identical parallel
//   processors", 1995).
// Needs parts >= 1 and a total below 2^63; 0 if there are no loads. O(n).
uint64_t LargestSumBound(std::span<const uint64_t> descending_loads, uint32_t parts,
                         uint64_t least_each = 0);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_PART_BOUND_H_
