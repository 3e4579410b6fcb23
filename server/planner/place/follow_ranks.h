// The slots of a later pass, whose sequences stay on the ranks that an earlier pass gave them.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_FOLLOW_RANKS_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_FOLLOW_RANKS_H_

#include <optional>

#include "server/planner/pass/context_problem.h"

namespace batchplan {

// Slots in which every item is on the ranks that it has in `lead`, slots of the problem's items
// that may exceed its limits. Slots whose groups have the same sizes are filled anew together: the
// items that they have at one place of the pool are divided, evenly by cost, among as many groups
// there as the problem's limits need, the same number at each place. So slots are joined where the
// limits are wider than those of `lead`, and split where they are narrower.
//
// None if a group of `lead` has a size that the problem has not (problem.sizes.size() or more).
// Unless empty groups are allowed, also none if a place needs more groups than another has items,
// or if no allowed number of slots is possible. O(n log n).
std::optional<ContextSlots> FollowRanks(const ContextProblem& problem, const ContextSlots& lead);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_FOLLOW_RANKS_H_
