// Which of the possible sizes of groups are worth looking at.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_USEFUL_SIZES_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_USEFUL_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/request/context_sizes.h"
#include "server/planner/request/lengths.h"
#include "server/planner/request/options.h"

namespace batchplan {

// The sizes worth looking at: those of WithoutDearSizes, for very many sequences without the
// largest of them, so that memory, which goes by sizes times sequences, stays bounded. Largest
// sizes are dropped until sizes times sequences are at most kMostItemSizes, or no size is larger
// than the smallest that holds every sequence. Why these: many sequences always fill what small
// groups leave.
inline constexpr uint64_t kMostItemSizes = uint64_t{1} << 21;
std::vector<GroupLimits> UsefulSizes(const PlanOptions& options, size_t index,
                                     std::span<const GroupLimits> limits,
                                     const PlannedLengths& planned);

// Drops sizes that are never worth their exchange. A size is dropped if exchanging a token there
// costs a rank, and its ranks together, over kDearExchange times the most that a sequence's token
// costs on the sizes that stay, one of which holds every sequence. Why: all sizes share one integer
// scale, in which a huge exchange would leave the others no precision. The smallest size stays.
// Under SHARDING_MEGATRON_DYNAMIC_CP, which ignores the exchange, all stay. O(n + sizes^2).
inline constexpr double kDearExchange = 64;
std::vector<GroupLimits> WithoutDearSizes(const PlanOptions& options, size_t index,
                                          std::span<const GroupLimits> limits,
                                          const PlannedLengths& planned);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_USEFUL_SIZES_H_
