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
  // Besides, the costliest items that keep the group within the mean cost of a slot.
  kFilled,
};

// Slots of groups of the smallest size, and of one larger group for each item that does not fit
// that size, of the smallest size that holds the item.
//
// To the solver of ranks (ranks/solve_lockstep.h), a smallest group is a rank. A large group is
// several items, one for each smallest group in its place; each costs what the group costs and
// fills its micro-batch. From the micro-batches that come back, slots are formed anew by cost, each
// large group whole in one slot.
//
// Empty if more than one item in 33 does not fit the smallest size, or if the groups of these have
// more ranks than there are other items; if the smallest size does not divide the pool; if the
// solver finds no slots; or if the large groups can't be divided among them. Useless once a stop is
// requested. About as slow as SolveLockstep.
std::vector<FilledSlot> LockstepOnRanks(const ContextItems& all, LargeGroups large,
                                        const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_LOCKSTEP_RANKS_H_
