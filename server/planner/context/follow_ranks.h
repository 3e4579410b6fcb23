// The slots of a later pass, whose sequences stay on the ranks that an earlier pass gave them.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_FOLLOW_RANKS_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_FOLLOW_RANKS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "server/planner/context/context_problem.h"

namespace batchplan {

// Items of the problem, on so many ranks.
struct RanksGroup {
  uint32_t ranks = 1;
  std::vector<uint32_t> items = {};
};

// Slots in which every item is on the ranks that `lead` has it on. Slots whose groups have the same
// sizes are taken together: what all of them have at one place of the pool is filled anew into as
// many groups there as the limits of the problem need, equally many at each place, evened out by
// cost. So slots are joined where the limits are wider than those of `lead`, and split where they
// are narrower.
//
// None if a place needs more groups than another has items, or no count of slots that is allowed
// can be had so; unless empty groups are allowed. O(n log n).
std::optional<ContextSlots> FollowRanks(const ContextProblem& problem,
                                        const std::vector<std::vector<RanksGroup>>& lead);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_FOLLOW_RANKS_H_
