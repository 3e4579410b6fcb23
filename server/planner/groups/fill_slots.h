// Slots filled within a given time.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_FILL_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_FILL_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/groups/context_items.h"
#include "server/planner/groups/draft_groups.h"
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

// Fills one slot again and again, each time anew.
class SlotFiller {
 public:
  // From the items in `left`. Both must outlive the filler.
  SlotFiller(const ContextItems& all, IndexSet& left);

  // A slot that runs for at most `most`, filled from the first item of `left` on. False if that
  // item fits no group within that time, or if no group can use some of the ranks. `left` is then
  // as before.
  bool Fill(Cost most, SlotFill fill);

  // Of the slot that Fill has made: its items, by group before free ranks were given to groups;
  // the number of its groups; its slowest time; and the slot itself, once.
  std::span<const DraftGroups::Placed> placed() const { return drafts_.placed(); }
  size_t groups() const;
  Cost slowest() const;
  FilledSlot Take();

 private:
  void Add(uint32_t group, uint32_t item);
  // The longest item left at or after `from` that fits into the group.
  size_t LongestFor(const DraftGroup& group, size_t from) const;
  // The next item at or after `from` that a group on some of the free ranks can have.
  size_t NextToOpen(size_t from) const;
  // Opens a group for the item, of at most that size; false if there are too few ranks.
  bool Open(uint32_t item, uint32_t size);
  void OpenOf(uint32_t size, uint32_t item);
  void OpenFirst();
  void BestFit();
  // The fullest of the last groups, of at most that size, that can have the item.
  std::optional<uint32_t> FullestFor(uint32_t item, uint32_t size);
  // Gives each group the longest items that it can have, the fullest group first.
  void Complete();

  const ContextItems& all_;
  IndexSet& left_;
  Cost most_ = 0;
  uint32_t free_ = 0;  // ranks
  DraftGroups drafts_;
  FilledSlot slot_;                               // if not all ranks have a group in drafts_
  std::vector<Cost> least_over_;                  // by size
  std::vector<std::pair<Cost, uint32_t>> order_;  // of groups
};

// All of `items`, ascending positions, in `slots` slots that run for at most `most` each. Empty if
// no such slots are found, or once a stop is requested.
std::vector<FilledSlot> FillEvenly(const ContextItems& all, std::span<const uint32_t> items,
                                   uint64_t slots, Cost most, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_FILL_SLOTS_H_
