// Groups of several sizes that add up to an exact number of sequences.

#ifndef BATCHPLAN_SERVER_PLANNER_SPLIT_EXACT_SUMS_H_
#define BATCHPLAN_SERVER_PLANNER_SPLIT_EXACT_SUMS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/request/allowance.h"

namespace batchplan {

// The sums that are looked at: in all, and at a time, since these are kept.
inline constexpr uint64_t kMostSumSteps = uint64_t{1} << 27;
inline constexpr uint64_t kMostSumCells = uint64_t{1} << 24;

// Of units of these sizes, each at least 1, the first ones and at most max_overtaking of those
// behind the first that is left out, which add up to `sum`, ascending: as many of the first ones as
// possible, then as few others as possible, the earlier of equal size. None if there are none, or
// if that many sums don't tell, or once a stop is requested. Bounded knapsacks, one for each number
// of first ones: with a remainder of r and d sizes, r * d sums.
std::optional<std::vector<uint32_t>> UnitsThatAddUp(std::span<const uint32_t> sizes, uint64_t sum,
                                                    uint32_t max_overtaking,
                                                    const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_EXACT_SUMS_H_
