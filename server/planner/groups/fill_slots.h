// Slots filled within a given time.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_FILL_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_FILL_SLOTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/groups/context_items.h"
#include "server/planner/groups/filled_groups.h"
#include "server/planner/packing/index_set.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// How a slot is filled.
enum class SlotFill {
  // A group for each of the longest items first; then each group gets the longest items it can
  // have.
  kOpenFirst,
  // Every item goes into the fullest group that can have it; a group is opened only if none can.
  kBestFit,
};

// One slot that runs for at most `most`, filled from the first item of `left` on. Takes its items
// out of `left`. Empty, with `left` unchanged, if the first item fits no group within that time, or
// if no group can use some of the ranks.
FilledSlot FillSlot(const ContextItems& all, Cost most, SlotFill fill, IndexSet& left);

// All of `items`, ascending positions, in `slots` slots that run for at most `most` each. Empty if
// no such slots are found, or once a stop is requested.
std::vector<FilledSlot> FillEvenly(const ContextItems& all, std::span<const uint32_t> items,
                                   uint64_t slots, Cost most, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_FILL_SLOTS_H_
