// Slots for accumulated synchronization: ranks meet where a group of theirs begins, and at the end.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_ACCUMULATED_GROUPS_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_ACCUMULATED_GROUPS_H_

#include <cstdint>
#include <vector>

#include "server/planner/groups/context_items.h"
#include "server/planner/groups/filled_groups.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// `slots` slots for all items, in the order in which they run, the groups of each as they stand
// along the ranks. What is too long for the smallest groups within `most`, the time of the whole
// step, has a group of its own, of the size that takes least of the ranks. These come first,
// descending in size from slot to slot too: then the ranks of every group have been in one group,
// or in the same ones, until it begins, and none waits. Of a slot's groups of one size the slower
// stand where the ranks have had less. All others go into the smallest groups, the longest first to
// the rank that has least and has room for them, and then from rank to rank (EvenOutRanks).
//
// Empty if there is no room or a group has nothing.
std::vector<FilledSlot> FillAccumulated(const ContextItems& all, uint64_t slots, Cost most,
                                        uint64_t steps, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_ACCUMULATED_GROUPS_H_
