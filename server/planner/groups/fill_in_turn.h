// Slots filled one after the other, each for the time that wastes least.

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
  // What a slot costs on top of its slowest group: the higher, the fewer slots there are.
  Cost per_slot = 0;
  // Times that are tried for a slot.
  uint32_t tries = 16;
  // The longest time of a slot, unless one of its items alone runs longer.
  Cost most = std::numeric_limits<Cost>::max();
};

// Puts all of `items`, ascending positions, into slots. The next slot has the longest item left.
// Several times are tried for it: those of this item in groups of each size, and times between the
// least of these and that of a group full of such items. SlotFiller makes a slot for each time; the
// slot with the least rank-time for its work is kept. Empty if some ranks can't be given a group,
// or once a stop is requested.
std::vector<FilledSlot> FillInTurn(const ContextItems& all, std::span<const uint32_t> items,
                                   const TurnOptions& options, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_FILL_IN_TURN_H_
