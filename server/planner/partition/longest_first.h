// Longest processing time first: the greedy rule for multiway number partitioning.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_LONGEST_FIRST_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_LONGEST_FIRST_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "server/planner/allowance.h"

namespace batchplan {

// The part, 0 .. parts - 1, of each load: by (load, position), both descending, each goes to the
// part with the least (sum, loads, number) that has fewer than `most_each` loads; the last loads go
// to parts that would have fewer than `least_each` otherwise. R. L. Graham, "Bounds on
// multiprocessing timing anomalies" (1969): the largest sum is at most 4/3 - 1/(3 parts) of the
// least possible where neither number binds. Needs parts * most_each >= loads.size() >= parts *
// least_each, and a total below 2^64. Deterministic; O(n log parts). Once a stop is
// requested it ends soon, with a partition that is of no use.
std::vector<uint32_t> LongestFirst(std::span<const uint64_t> loads, uint32_t parts,
                                   uint64_t most_each = std::numeric_limits<uint64_t>::max(),
                                   uint64_t least_each = 0, const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_LONGEST_FIRST_H_
