// Groups while they are being filled.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_FILLED_GROUPS_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_FILLED_GROUPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/groups/context_items.h"
#include "server/planner/pass/context_problem.h"

namespace batchplan {

// A group of items, by their positions in ContextItems, and its sums over them.
struct FilledGroup {
  uint32_t size = 0;
  Cost time = 0;
  uint64_t tokens = 0;
  uint64_t sequences = 0;
  std::vector<uint32_t> items = {};

  bool Holds(const ContextItems& all, uint32_t item) const {
    return tokens + all.tokens(size, item) <= all.capacity(size) &&
           sequences + all.sequences(item) <= all.max_sequences();
  }
  // The time with one more item.
  Cost TimeWith(const ContextItems& all, uint32_t item) const {
    return items.empty() ? all.Alone(size, item) : time + all.cost(size, item);
  }
  void Add(const ContextItems& all, uint32_t item) {
    time = TimeWith(all, item);
    items.push_back(item);
    tokens += all.tokens(size, item);
    sequences += all.sequences(item);
  }
  // Removes the item at `place`; other items may change places.
  void Remove(const ContextItems& all, size_t place) {
    const uint32_t item = items[place];
    items[place] = items.back();
    items.pop_back();
    time = items.empty() ? 0 : time - all.cost(size, item);
    tokens -= all.tokens(size, item);
    sequences -= all.sequences(item);
  }
  // Add and Remove that keep ascending items ascending.
  void Insert(const ContextItems& all, uint32_t item) {
    Add(all, item);
    std::rotate(std::upper_bound(items.begin(), items.end() - 1, item), items.end() - 1,
                items.end());
  }
  void Erase(const ContextItems& all, size_t place) {
    std::rotate(items.begin() + static_cast<ptrdiff_t>(place),
                items.begin() + static_cast<ptrdiff_t>(place) + 1, items.end());
    Remove(all, items.size() - 1);
  }
};

using FilledSlot = std::vector<FilledGroup>;

// Makes `group` these items in a group of that size. False if it does not hold them.
bool Regroup(const ContextItems& all, std::span<const uint32_t> items, uint32_t size,
             FilledGroup& group);

// Gives the `free` ranks of a slot, which have no group yet, to groups: costly groups are divided
// or made larger, or empty groups are added where allowed. False if free ranks remain.
bool UseFreeRanks(const ContextItems& all, uint32_t free, FilledSlot& slot);

// Without fixed costs.
Cost SlowestTime(const FilledSlot& slot);

// Between FilledSlots and what SolveContext returns. Groups of a slot descend in size.
ContextSlots ToContextSlots(const ContextItems& all, const std::vector<FilledSlot>& slots);
std::vector<FilledSlot> FromContextSlots(const ContextItems& all, const ContextSlots& slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_FILLED_GROUPS_H_
