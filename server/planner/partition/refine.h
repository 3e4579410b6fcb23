// A partition made more even by exchanges.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_REFINE_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_REFINE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/allowance.h"

namespace batchplan {

// What has to stay as it is.
struct RefineRules {
  // Sequences that stand behind each load; empty: one each.
  std::span<const uint32_t> counts = {};
  // Every part keeps its number of sequences.
  bool equal_counts = false;
  // Loads that are left to every part.
  uint32_t least_each = 0;
};

// Exchanges up to two loads of the heaviest part for up to two of another until the largest sum is
// at most `goal`, nothing lowers it further, `steps` loads and pairs of loads were looked at, or
// the allowance ends (exchange_search.h). The largest sum never rises. Needs a total below 2^62.
// Deterministic. O(n + steps) time and O(log parts) for each part and each move, O(n + parts)
// memory.
std::vector<uint32_t> RefineParts(std::span<const uint64_t> loads, std::vector<uint32_t> part_of,
                                  uint32_t parts, const RefineRules& rules, uint64_t goal,
                                  uint64_t steps, const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_REFINE_H_
