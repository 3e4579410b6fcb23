// Longest processing time first: the greedy rule for multiway number partitioning.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_LONGEST_FIRST_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_LONGEST_FIRST_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace batchplan {

// The part, 0 .. parts - 1, of each load: by (load, position), both descending, each goes to the
// part with the least (sum, loads, number) that has fewer than `most_each` loads. R. L. Graham,
// "Bounds on multiprocessing timing anomalies" (1969): the largest sum is at most 4/3 - 1/(3 parts)
// of the least possible where `most_each` does not bind. Needs parts * most_each >= loads.size()
// and a total below 2^64. Deterministic; O(n log n).
std::vector<uint32_t> LongestFirst(std::span<const uint64_t> loads, uint32_t parts,
                                   uint64_t most_each = std::numeric_limits<uint64_t>::max());

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_LONGEST_FIRST_H_
