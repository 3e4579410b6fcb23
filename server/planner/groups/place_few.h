// Slots for few items, found if there are any.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_PLACE_FEW_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_PLACE_FEW_H_

#include <cstdint>
#include <vector>

#include "server/planner/groups/context_items.h"
#include "server/planner/groups/filled_groups.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// `slots` slots for all items without an empty group, by depth-first search over all divisions of
// the items into groups and slots. Empty if there are none, or after `nodes` tries to place an
// item.
std::vector<FilledSlot> PlaceFew(const ContextItems& all, uint64_t slots, uint64_t nodes,
                                 const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_PLACE_FEW_H_
