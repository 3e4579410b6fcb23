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

// The sizes without those that are of no use (WithoutDearSizes), and of very many sequences without
// the largest: so that sizes times sequences are at most kMostItemSizes, or no size is larger than
// the least that holds every sequence. Among so many, there are always some that fill what small
// groups leave, and memory grows with the product.
inline constexpr uint64_t kMostItemSizes = uint64_t{1} << 21;
std::vector<GroupLimits> UsefulSizes(const PlanOptions& options, size_t index,
                                     std::span<const GroupLimits> limits,
                                     const PlannedLengths& planned);

// The sizes without those that are of no use: where, of each sequence, every rank exchanges for
// longer than kDearExchange times what it takes altogether in others that are left and hold it, and
// all ranks together too. Costs of all sizes have one scale, in which little would be left of the
// others. The smallest stays, and all do where SHARDING_MEGATRON_DYNAMIC_CP chooses sizes, whatever
// these exchange. O(n + sizes^2).
inline constexpr double kDearExchange = 64;
std::vector<GroupLimits> WithoutDearSizes(const PlanOptions& options, size_t index,
                                          std::span<const GroupLimits> limits,
                                          const PlannedLengths& planned);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_USEFUL_SIZES_H_
