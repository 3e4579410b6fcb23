// The best slots for few items.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_BEST_OF_FEW_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_BEST_OF_FEW_H_

#include <optional>
#include <vector>

#include "server/planner/groups/context_items.h"
#include "server/planner/groups/filled_groups.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// The slots of least lockstep time, without empty groups, by dynamic programming over sets of
// items: how long a set runs on some ranks of a slot, and then in some slots. Empty if no slots
// keep the limits. None if there are too many items and ranks for the search, or once a stop is
// requested. O(3^n * pool * sizes).
std::optional<std::vector<FilledSlot>> BestOfFew(const ContextItems& all,
                                                 const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_BEST_OF_FEW_H_
