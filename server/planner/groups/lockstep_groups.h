// Slots for lockstep: the ranks of a slot wait for its slowest group.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_LOCKSTEP_GROUPS_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_LOCKSTEP_GROUPS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/groups/context_items.h"
#include "server/planner/groups/filled_groups.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// `slots` slots for `items`, ascending positions, within the least time for which FillEvenly
// (fill_slots.h) succeeds, found by bisection. Empty if it succeeds for none.
std::vector<FilledSlot> LeastEvenSlots(const ContextItems& all, std::span<const uint32_t> items,
                                       uint64_t slots, const Allowance& allowance);

// Divides slots until problem.slots allows their number. False if that is not reached.
bool RaiseSlots(const ContextItems& all, std::vector<FilledSlot>& slots);

// Empties a few slots and fills them anew, in turn (fill_in_turn.h), `tries` times. Keeps the new
// slots if they are faster and their number is allowed. Spends from the allowance.
void RefillSlots(const ContextItems& all, uint64_t tries, const Allowance& allowance,
                 std::vector<FilledSlot>& slots);

// Dissolves the shortest slot: each of its items, the costliest first, goes to the group of another
// slot where that slot's time, as it was before, is exceeded least, so that the items spread over
// the slots. False, with useless slots, if an item finds no room, if the allowance, which it
// spends, does not afford the search, or once a stop is requested. O(items of the slot * groups).
bool DissolveShortest(const ContextItems& all, const Allowance& allowance,
                      std::vector<FilledSlot>& slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_LOCKSTEP_GROUPS_H_
