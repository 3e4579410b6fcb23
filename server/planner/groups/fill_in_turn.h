// Slots filled one after the other, each for as long as wastes least.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_FILL_IN_TURN_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_FILL_IN_TURN_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "server/planner/groups/context_items.h"
#include "server/planner/groups/filled_groups.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

struct TurnOptions {
  // What a slot costs on top of its slowest group. Fewer slots come of more.
  Cost per_slot = 0;
  // Times that are tried for a slot.
  uint32_t tries = 16;
  // No slot is to take longer, unless one of its items does by itself.
  Cost most = std::numeric_limits<Cost>::max();
};

// All of `items`, ascending positions. The longest item that is left stands in the next slot. What
// that may take is tried: what the item takes in groups of each size, and times between the least
// of these and what it would take to fill a group with its like. Of the slots that FillSlot makes
// of these that one is kept whose time times the pool is least for the work that is in it. Empty if
// some ranks can't be given a group, and once a stop is requested.
std::vector<FilledSlot> FillInTurn(const ContextItems& all, std::span<const uint32_t> items,
                                   const TurnOptions& options, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_FILL_IN_TURN_H_
