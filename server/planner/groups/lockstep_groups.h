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

// `slots` slots for `items`, ascending positions, all within one time: the least, by bisection,
// with which FillEvenly (fill_slots.h) succeeds. Empty if it succeeds with none.
std::vector<FilledSlot> LeastEvenSlots(const ContextItems& all, std::span<const uint32_t> items,
                                       uint64_t slots, const Allowance& allowance);

// Divides slots until their number is one that problem.slots allows. False if none can be divided.
bool RaiseSlots(const ContextItems& all, std::vector<FilledSlot>& slots);

// Takes a few slots apart and fills them anew, in turn (fill_in_turn.h), `tries` times. New slots
// are kept if they are faster and their number is allowed. Spends from the allowance.
void RefillSlots(const ContextItems& all, uint64_t tries, const Allowance& allowance,
                 std::vector<FilledSlot>& slots);

// Puts what the shortest slot holds into groups of the others: each item, the costliest first,
// where it exceeds by the least what its slot took before, so that items spread over the slots.
// False, with slots of no use, if an item finds no room, if the allowance, which it spends, does
// not pay for the look, or once a stop is requested. O(items of the slot * groups).
bool DissolveShortest(const ContextItems& all, const Allowance& allowance,
                      std::vector<FilledSlot>& slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_LOCKSTEP_GROUPS_H_
