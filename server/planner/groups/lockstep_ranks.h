// Slots in lockstep where most items fit the smallest groups: these are filled as ranks are.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_LOCKSTEP_RANKS_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_LOCKSTEP_RANKS_H_

#include <vector>

#include "server/planner/groups/context_items.h"
#include "server/planner/groups/filled_groups.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// What a group that is larger than the smallest holds.
enum class LargeGroups {
  // The one item that no smallest group holds.
  kAlone,
  // Beside it the costliest items that keep it within what a slot costs in the mean.
  kFilled,
};

// Slots whose groups have the smallest size, but for one larger group for each item that does not
// fit it, of the smallest size that holds it.
//
// To the solver of ranks (ranks/solve_lockstep.h), smallest groups are ranks. A large group is
// several items for it, one for each smallest group that has its place: each costs what the group
// costs and leaves no room, so that nothing shares its micro-batch. Of the micro-batches that come
// back, slots are formed anew by cost, each large group whole in one slot.
//
// None if more than one item in 33 does not fit the smallest size, or their groups have more ranks
// than there are other items; if that size does not divide the pool; if the solver finds no slots;
// or if the large groups can't be divided among them. Once a stop is requested, of no use. Takes
// about as long as SolveLockstep.
std::vector<FilledSlot> LockstepOnRanks(const ContextItems& all, LargeGroups large,
                                        const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_LOCKSTEP_RANKS_H_
