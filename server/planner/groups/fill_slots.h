// Slots filled from items that are left, within a time that each may take.

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
  // First a group for each of the longest items, then to each what is longest of what it can take.
  kOpenFirst,
  // Every item into the fullest group that can take it; a new group only where none can.
  kBestFit,
};

// One slot that runs for at most `most`, filled from the first of `left` on. Takes its items out of
// `left`. Empty, with `left` as it was, if the first item fits no group within that time, or if
// ranks are left that no group can use.
FilledSlot FillSlot(const ContextItems& all, Cost most, SlotFill fill, IndexSet& left);

// All of `items`, ascending positions, in `slots` slots that run for at most `most` each. Empty if
// they are not found to fit, and once a stop is requested.
std::vector<FilledSlot> FillEvenly(const ContextItems& all, std::span<const uint32_t> items,
                                   uint64_t slots, Cost most, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_FILL_SLOTS_H_
