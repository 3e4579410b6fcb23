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
// along the ranks. An item that is too long for the smallest groups within `most`, the time of the
// whole step, has a group of its own, of the size that costs the ranks least. These groups run
// first, in descending size. The ranks of a group have then been in the same groups until it
// begins, so that none waits for another. Of a slot's groups of one size the slower stand where the
// ranks have had less. All other items go into the smallest groups: the longest first, to the rank
// that has least and has room for it. Then they move from rank to rank (EvenOutRanks).
//
// Empty if there is no room or a group would be empty.
std::vector<FilledSlot> FillAccumulated(const ContextItems& all, uint64_t slots, Cost most,
                                        uint64_t steps, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_ACCUMULATED_GROUPS_H_
