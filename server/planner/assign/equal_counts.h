// Partitioning loads that come in units of several into parts of the same count.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_EQUAL_COUNTS_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_EQUAL_COUNTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/allowance.h"

namespace batchplan {

// The part, 0 .. parts - 1, of each unit, so that all parts have the same total of `counts` and
// sums of `loads` that are close: the heaviest unit first to the lightest part that has room for
// it; if that gets stuck or takes too many looks, how many units of each count a part takes is
// first decided by packing the counts. Needs parts to divide the total count. Nothing if no such
// division is found before the allowance ends: whether there is one is a bin packing question,
// answered exactly for some dozen units. O(n log n) where all counts are equal.
std::optional<std::vector<uint32_t>> PartsOfEqualCount(std::span<const uint64_t> loads,
                                                       std::span<const uint32_t> counts,
                                                       uint32_t parts, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_EQUAL_COUNTS_H_
