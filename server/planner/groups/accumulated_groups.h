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
// along the ranks. `most` is the time of the whole step. An item that runs longer than that in a
// smallest group gets a group of its own, of the size with the least rank-time. These larger groups
// run first, in descending size: the ranks of a group then come from the same earlier groups, so
// that none waits for another. Among a slot's groups of one size, the slower go to the ranks with
// less work so far. All other items go into the smallest groups: the longest first, each to the
// rank with least time and room for it. Then they move from rank to rank (EvenOutRanks).
//
// Empty if there is no room or a group would be empty.
std::vector<FilledSlot> FillAccumulated(const ContextItems& all, uint64_t slots, Cost most,
                                        uint64_t steps, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_ACCUMULATED_GROUPS_H_
