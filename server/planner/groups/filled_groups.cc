#include "server/planner/groups/filled_groups.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

namespace batchplan {
namespace {

// Gives the free ranks of one slot to groups, the slowest first.
class FreeRanks {
 public:
  FreeRanks(const ContextItems& all, uint32_t free, FilledSlot& slot)
      : all_(all), free_(free), slot_(slot) {
    for (uint32_t group = 0; group < slot.size(); ++group) Open(group);
  }

  bool Use() {
    while (free_ > 0) {
      if (!by_time_.empty()) {
        const uint32_t slowest = by_time_.top().second;
        by_time_.pop();
        if (Divide(slowest) || Grow(slowest, /*faster=*/true)) continue;
        stuck_.push_back(slowest);
      } else if (all_.problem().allow_empty) {
        return AddEmpty();
      } else if (!GrowAny()) {
        return false;
      }
    }
    return true;
  }

 private:
  void Open(uint32_t group) { by_time_.emplace(slot_[group].time, group); }

  // Moves half of a group's items to a group of their own.
  bool Divide(uint32_t index) {
    if (slot_[index].items.size() < 2) return false;
    std::vector<uint32_t> items = slot_[index].items;
    std::sort(items.begin(), items.end());
    for (uint32_t size = slot_[index].size + 1; size-- > 0;) {
      if (all_.ranks(size) > free_) continue;
      FilledGroup part = {.size = size};
      FilledGroup rest = {.size = slot_[index].size};
      for (const uint32_t item : items) {
        const bool there = part.TimeWith(all_, item) <= rest.TimeWith(all_, item);
        if (there && part.Holds(all_, item)) {
          part.Add(all_, item);
        } else {
          rest.Add(all_, item);
        }
      }
      if (part.items.empty() || rest.items.empty()) continue;
      free_ -= all_.ranks(size);
      slot_[index] = std::move(rest);
      slot_.push_back(std::move(part));
      Open(index);
      Open(static_cast<uint32_t>(slot_.size()) - 1);
      return true;
    }
    return false;
  }

  bool Grow(uint32_t index, bool faster) {
    const FilledGroup& group = slot_[index];
    for (uint32_t size = group.size + 1; size < all_.sizes(); ++size) {
      const uint32_t more = all_.ranks(size) - all_.ranks(group.size);
      if (more > free_) return false;
      FilledGroup grown;
      if (!Regroup(all_, group.items, size, grown) || (faster && grown.time >= group.time)) {
        continue;
      }
      free_ -= more;
      slot_[index] = std::move(grown);
      Open(index);
      return true;
    }
    return false;
  }

  // Enlarges the group that is then fastest.
  bool GrowAny() {
    std::sort(stuck_.begin(), stuck_.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(slot_[a].time, a) < std::pair(slot_[b].time, b);
    });
    for (size_t i = 0; i < stuck_.size(); ++i) {
      if (!Grow(stuck_[i], /*faster=*/false)) continue;
      stuck_.erase(stuck_.begin() + static_cast<ptrdiff_t>(i));
      return true;
    }
    return false;
  }

  bool AddEmpty() {
    for (uint32_t size = all_.sizes(); size-- > 0;) {
      for (; all_.ranks(size) <= free_; free_ -= all_.ranks(size)) slot_.push_back({.size = size});
    }
    return free_ == 0;
  }

  const ContextItems& all_;
  uint32_t free_;
  FilledSlot& slot_;
  std::priority_queue<std::pair<Cost, uint32_t>> by_time_;
  std::vector<uint32_t> stuck_;
};

}  // namespace

bool Regroup(const ContextItems& all, std::span<const uint32_t> items, uint32_t size,
             FilledGroup& group) {
  group = {.size = size};
  group.items.reserve(items.size());
  for (const uint32_t item : items) {
    if (!group.Holds(all, item)) return false;
    group.Add(all, item);
  }
  return true;
}

bool UseFreeRanks(const ContextItems& all, uint32_t free, FilledSlot& slot) {
  return free == 0 || FreeRanks(all, free, slot).Use();
}

Cost SlowestTime(const FilledSlot& slot) {
  Cost slowest = 0;
  for (const FilledGroup& group : slot) slowest = std::max(slowest, group.time);
  return slowest;
}

ContextSlots ToContextSlots(const ContextItems& all, const std::vector<FilledSlot>& slots) {
  ContextSlots result;
  result.reserve(slots.size());
  for (const FilledSlot& slot : slots) {
    std::vector<ContextGroup>& groups = result.emplace_back();
    groups.reserve(slot.size());
    for (const FilledGroup& group : slot) {
      ContextGroup& items = groups.emplace_back(ContextGroup{.size = group.size, .items = {}});
      for (const uint32_t item : group.items) items.items.push_back(all.item(item));
      std::sort(items.items.begin(), items.items.end());
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const ContextGroup& a, const ContextGroup& b) { return a.size > b.size; });
  }
  return result;
}

std::vector<FilledSlot> FromContextSlots(const ContextItems& all, const ContextSlots& slots) {
  std::vector<uint32_t> position(all.size());
  for (uint32_t i = 0; i < all.size(); ++i) position[all.item(i)] = i;
  std::vector<FilledSlot> result;
  for (const auto& slot : slots) {
    FilledSlot& groups = result.emplace_back();
    for (const ContextGroup& items : slot) {
      FilledGroup& group = groups.emplace_back(FilledGroup{.size = items.size});
      for (const uint32_t item : items.items) group.Add(all, position[item]);
    }
  }
  return result;
}

}  // namespace batchplan
