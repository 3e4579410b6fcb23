// Groups of a trial that is mostly thrown away: without lists of their items.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_DRAFT_GROUPS_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_DRAFT_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/groups/context_items.h"
#include "server/planner/groups/filled_groups.h"

namespace batchplan {

// FilledGroup without its items, of which it has at least one.
struct DraftGroup {
  uint32_t size = 0;
  Cost time = 0;
  uint64_t tokens = 0;
  uint64_t sequences = 0;

  bool Holds(const ContextItems& all, uint32_t item) const {
    return tokens + all.tokens(size, item) <= all.capacity(size) &&
           sequences + all.sequences(item) <= all.max_sequences();
  }
  // Whether it holds the item and then runs for at most `most`.
  bool CanTake(const ContextItems& all, uint32_t item, Cost most) const {
    return time + all.cost(size, item) <= most && Holds(all, item);
  }
};

class DraftGroups {
 public:
  struct Placed {
    uint32_t item = 0;
    uint32_t group = 0;
  };

  // The items must outlive the groups.
  explicit DraftGroups(const ContextItems& all) : all_(all) {}

  bool empty() const { return groups_.empty(); }
  size_t size() const { return groups_.size(); }
  const DraftGroup& operator[](size_t group) const { return groups_[group]; }
  std::span<const DraftGroup> groups() const { return groups_; }
  // In the order in which they were added.
  std::span<const Placed> placed() const { return placed_; }

  void Clear() {
    groups_.clear();
    placed_.clear();
  }
  // A new group, the last one, that has the item.
  void Open(uint32_t size, uint32_t item) {
    groups_.push_back({.size = size, .time = all_.whole_row(size)});
    Add(static_cast<uint32_t>(groups_.size() - 1), item);
  }
  void Add(uint32_t number, uint32_t item) {
    DraftGroup& group = groups_[number];
    group.time += all_.cost(group.size, item);
    group.tokens += all_.tokens(group.size, item);
    group.sequences += all_.sequences(item);
    placed_.push_back({.item = item, .group = number});
  }

  // The groups with their items, in the order in which they were added.
  std::vector<FilledGroup> Filled() const;

 private:
  const ContextItems& all_;
  std::vector<DraftGroup> groups_;
  std::vector<Placed> placed_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_DRAFT_GROUPS_H_
