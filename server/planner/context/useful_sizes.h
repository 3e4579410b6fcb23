// Which of the sizes of groups that there may be are worth looking at.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_USEFUL_SIZES_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_USEFUL_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/context/context_sizes.h"
#include "server/planner/lengths.h"
#include "server/planner/options.h"

namespace batchplan {

// The sizes that are worth looking at: those of WithoutDearSizes, and of very many sequences
// without the largest, so that memory for each size and sequence stays bounded: sizes times
// sequences are at most kMostItemSizes, or no size is larger than the least that holds every
// sequence. Among so many sequences there are always some that fill what small groups leave.
inline constexpr uint64_t kMostItemSizes = uint64_t{1} << 21;
std::vector<GroupLimits> UsefulSizes(const PlanOptions& options, size_t index,
                                     std::span<const GroupLimits> limits,
                                     const PlannedLengths& planned);

// Drops sizes that are never worth their exchange: those where exchanging a token takes a rank over
// kDearExchange times what any sequence's token costs at most, exchange included, on the sizes that
// stay, and takes all ranks that run it together as much too. One of those that stay holds every
// sequence. The costs of all sizes share one integer scale, in which a huge exchange would leave
// the others no precision. The smallest size stays, and all do under SHARDING_MEGATRON_DYNAMIC_CP,
// which chooses sizes whatever these exchange. O(n + sizes^2).
inline constexpr double kDearExchange = 64;
std::vector<GroupLimits> WithoutDearSizes(const PlanOptions& options, size_t index,
                                          std::span<const GroupLimits> limits,
                                          const PlannedLengths& planned);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_USEFUL_SIZES_H_
