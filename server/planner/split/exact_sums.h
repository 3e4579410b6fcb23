// Groups of several sizes that add up to an exact number of sequences.

#ifndef BATCHPLAN_SERVER_PLANNER_SPLIT_EXACT_SUMS_H_
#define BATCHPLAN_SERVER_PLANNER_SPLIT_EXACT_SUMS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/request/allowance.h"

namespace batchplan {

// The most sums that are looked at, and the most that are in memory at a time.
inline constexpr uint64_t kMostSumSteps = uint64_t{1} << 27;
inline constexpr uint64_t kMostSumCells = uint64_t{1} << 24;

// Units, ascending, whose sizes add up to `sum`: the first units, and at most max_overtaking units
// behind the first one left out. It chooses as many of the first units as possible, then as few
// others as possible, of equal sizes the earlier. Every size is at least 1. None if no units add
// up, if the search would exceed the limits above, or once a stop is requested. Solves a bounded
// knapsack for each number of first units: r * d sums, for a remainder of r and d different sizes.
std::optional<std::vector<uint32_t>> UnitsThatAddUp(std::span<const uint32_t> sizes, uint64_t sum,
                                                    uint32_t max_overtaking,
                                                    const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_EXACT_SUMS_H_
