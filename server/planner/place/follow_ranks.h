// The slots of a later pass, whose sequences stay on the ranks that an earlier pass gave them.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_FOLLOW_RANKS_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_FOLLOW_RANKS_H_

#include <optional>

#include "server/planner/pass/context_problem.h"

namespace batchplan {

// Slots in which every item is on the ranks that `lead` has it on. `lead` has items of the problem,
// and may be beyond its limits. Slots whose groups have the same sizes are filled anew together:
// the items that all of them have at one place of the pool go to as many groups there as the limits
// of the problem need, equally many at each place, evened out by cost. So slots are joined where
// the limits are wider than those of `lead`, and split where they are narrower.
//
// None if the size of a group in `lead` is none of the problem's (problem.sizes.size() or more).
// None, unless empty groups are allowed, if a place needs more groups than another has items, or if
// no allowed count of slots can be had. O(n log n).
std::optional<ContextSlots> FollowRanks(const ContextProblem& problem, const ContextSlots& lead);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_FOLLOW_RANKS_H_
