// Filling within a time. FillSlot fills one slot and leaves what does not fit; FillEvenly needs
// room for everything.
//
// An item's size is the one of least rank-time within the time. FillSlot opens groups for the
// longest items until the ranks are used up, then completes each group with the longest items that
// it still holds, the fullest group first; or it puts every item into the fullest group that holds
// it. FillEvenly places large items first, each into the tightest recent group of its size or a new
// one. Small items follow by longest processing time first; those that find no time in small groups
// go to large groups with time left. Free ranks go to the slowest groups, which are divided or get
// larger (UseFreeRanks).

#include "server/planner/groups/fill_slots.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace batchplan {
namespace {

// The most items looked at for one that a group holds, if items do not descend alike in all sizes.
constexpr int kMostLooks = 32;
// The most open groups of a size that are asked for an item.
constexpr size_t kMostAsked = 64;

// Capacity to reserve: for the groups of most slots, and for the items of most groups.
constexpr size_t kGroupsOfMost = 64;
constexpr size_t kItemsOfMost = 8;

class SlotFiller {
 public:
  SlotFiller(const ContextItems& all, Cost most, IndexSet& left)
      : all_(all), most_(most), left_(left), free_(all.problem().pool) {
    slot_.reserve(std::min<size_t>(free_ / all.ranks(0), kGroupsOfMost));
  }

  FilledSlot Run(SlotFill fill) {
    if (fill == SlotFill::kOpenFirst) {
      OpenFirst();
    } else {
      BestFit();
    }
    Complete();
    if (slot_.empty() || !UseFreeRanks(all_, free_, slot_)) {
      for (const uint32_t item : taken_) left_.Insert(item);
      slot_.clear();
    }
    return std::move(slot_);
  }

 private:
  void Take(FilledGroup& group, uint32_t item) {
    group.Add(all_, item);
    left_.Erase(item);
    taken_.push_back(item);
  }

  bool CanTake(const FilledGroup& group, uint32_t item) const {
    return group.TimeWith(all_, item) <= most_ && group.Holds(all_, item);
  }

  // The longest item left at or after `from` that fits into the group.
  size_t LongestFor(const FilledGroup& group, size_t from) const {
    const Cost before = group.items.empty() ? all_.whole_row(group.size) : group.time;
    if (before > most_) return IndexSet::kNone;
    const size_t first = all_.FirstWithin(group.size, most_ - before,
                                          all_.capacity(group.size) - group.tokens, from);
    size_t item = first >= all_.size() ? IndexSet::kNone : left_.AtLeast(first);
    for (int looks = 0; item != IndexSet::kNone && looks < kMostLooks; ++looks) {
      if (CanTake(group, static_cast<uint32_t>(item))) return item;
      item = left_.AtLeast(item + 1);
    }
    return IndexSet::kNone;
  }

  // The next item at or after `from` that a group on some of the free ranks can have.
  size_t NextToOpen(size_t from) const {
    uint32_t largest = all_.sizes();
    while (largest > 0 && all_.ranks(largest - 1) > free_) --largest;
    if (largest == 0) return IndexSet::kNone;
    return LongestFor({.size = largest - 1}, from);
  }

  // Opens a group for the item; false if there are too few ranks.
  bool Open(uint32_t item) {
    const uint32_t size = all_.SizeWithin(item, most_);
    if (size == all_.sizes()) return false;
    if (all_.ranks(size) > free_) {
      // The first item decides; others may have a smaller size, if only that many ranks are free.
      for (uint32_t smaller = size; smaller-- > 0;) {
        if (all_.ranks(smaller) > free_ || all_.Alone(smaller, item) > most_ ||
            !all_.MayTake(smaller, item)) {
          continue;
        }
        return OpenOf(smaller, item);
      }
      return false;
    }
    return OpenOf(size, item);
  }
  bool OpenOf(uint32_t size, uint32_t item) {
    free_ -= all_.ranks(size);
    FilledGroup& group = slot_.emplace_back(FilledGroup{.size = size});
    group.items.reserve(kItemsOfMost);
    Take(group, item);
    return true;
  }

  void OpenFirst() {
    size_t item = left_.AtLeast(0);
    if (item == IndexSet::kNone || !Open(static_cast<uint32_t>(item))) return;
    while (free_ > 0) {
      item = NextToOpen(item + 1);
      if (item == IndexSet::kNone) return;
      Open(static_cast<uint32_t>(item));
    }
  }

  void BestFit() {
    size_t item = left_.AtLeast(0);
    if (item == IndexSet::kNone || !Open(static_cast<uint32_t>(item))) return;
    std::vector<uint32_t> open = {0};
    while (free_ > 0) {
      item = NextToOpen(item + 1);
      if (item == IndexSet::kNone) return;
      const auto candidate = static_cast<uint32_t>(item);
      FilledGroup* tightest = nullptr;
      const uint32_t size = all_.SizeWithin(candidate, most_);
      const size_t asked = std::min(slot_.size(), kMostAsked);
      for (size_t i = slot_.size() - asked; i < slot_.size(); ++i) {
        FilledGroup& group = slot_[i];
        if (group.size > size || !CanTake(group, candidate)) continue;
        if (tightest == nullptr || group.time > tightest->time) tightest = &group;
      }
      if (tightest != nullptr) {
        Take(*tightest, candidate);
      } else {
        Open(candidate);
      }
    }
  }

  // Gives each group the longest items that it can have, the fullest group first.
  void Complete() {
    std::vector<uint32_t> order(slot_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(slot_[b].time, a) < std::pair(slot_[a].time, b);
    });
    for (const uint32_t index : order) {
      FilledGroup& group = slot_[index];
      size_t item = LongestFor(group, 0);
      while (item != IndexSet::kNone) {
        Take(group, static_cast<uint32_t>(item));
        item = LongestFor(group, item);
      }
    }
  }

  const ContextItems& all_;
  const Cost most_;
  IndexSet& left_;
  uint32_t free_;
  FilledSlot slot_;
  std::vector<uint32_t> taken_;
};

// An open group, in the order in which they get items.
struct Entry {
  Cost time = 0;
  uint32_t group = 0;

  friend bool operator<(const Entry& a, const Entry& b) {
    return std::pair(b.time, b.group) < std::pair(a.time, a.group);
  }
};

class EvenFiller {
 public:
  EvenFiller(const ContextItems& all, uint64_t slots, Cost most, const Allowance& allowance)
      : all_(all),
        most_(most),
        allowance_(allowance),
        free_(slots, all.problem().pool),
        recent_(all.sizes()) {}

  std::vector<FilledSlot> Run(std::span<const uint32_t> items) {
    std::vector<uint32_t> small;
    for (const uint32_t item : items) {
      if (item % kItemsPerLook == 0 && allowance_.stop_requested()) return {};
      const uint32_t size = all_.SizeWithin(item, most_);
      if (size == all_.sizes()) return {};
      if (size == 0) {
        small.push_back(item);
      } else if (!PlaceLarge(item, size)) {
        return {};
      }
    }
    if (!PlaceSmall(small)) return {};
    const uint64_t fewest = all_.problem().pool / all_.ranks(all_.sizes() - 1);
    if (free_.size() * fewest > all_.problem().most_groups()) return {};
    std::vector<FilledSlot> slots(free_.size());
    for (size_t i = 0; i < groups_.size(); ++i) {
      slots[slot_of_[i]].push_back(std::move(groups_[i]));
    }
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot].empty() && !all_.problem().allow_empty) return {};
      if (!UseFreeRanks(all_, free_[slot], slots[slot])) return {};
    }
    return slots;
  }

 private:
  bool CanTake(const FilledGroup& group, uint32_t item) const {
    return group.TimeWith(all_, item) <= most_ && group.Holds(all_, item);
  }

  bool PlaceLarge(uint32_t item, uint32_t size) {
    for (uint32_t of = size; of < all_.sizes(); ++of) {
      FilledGroup* tightest = nullptr;
      const std::vector<uint32_t>& recent = recent_[of];
      for (size_t i = recent.size() - std::min(recent.size(), kMostAsked); i < recent.size(); ++i) {
        FilledGroup& group = groups_[recent[i]];
        if (!CanTake(group, item)) continue;
        if (tightest == nullptr || group.time > tightest->time) tightest = &group;
      }
      if (tightest != nullptr) {
        tightest->Add(all_, item);
        return true;
      }
      if (of == size && Open(item, size)) return true;
    }
    return false;
  }

  bool Open(uint32_t item, uint32_t size) {
    while (first_free_ < free_.size() && free_[first_free_] < all_.ranks(0)) ++first_free_;
    size_t slot = first_free_;
    while (slot < free_.size() && free_[slot] < all_.ranks(size)) ++slot;
    if (slot == free_.size()) return false;
    free_[slot] -= all_.ranks(size);
    recent_[size].push_back(static_cast<uint32_t>(groups_.size()));
    slot_of_.push_back(static_cast<uint32_t>(slot));
    groups_.push_back({.size = size});
    groups_.back().Add(all_, item);
    return true;
  }

  bool PlaceSmall(std::span<const uint32_t> items) {
    // Large groups with time left are for items that the small ones can't have.
    const size_t larges = groups_.size();
    std::vector<Entry> heap;    // the fastest on top
    std::vector<Entry> parked;  // with few tokens left; the roomiest on top
    std::vector<uint32_t> later;
    const auto room = [&](uint32_t group) {
      return all_.capacity(groups_[group].size) - groups_[group].tokens;
    };
    const auto less_room = [&](const Entry& a, const Entry& b) {
      return std::pair(room(a.group), b.group) < std::pair(room(b.group), a.group);
    };
    size_t next = 0;
    // Empty slots get an item first.
    for (; next < items.size(); ++next) {
      if (!Open(items[next], 0)) break;
      const auto group = static_cast<uint32_t>(groups_.size()) - 1;
      heap.push_back({groups_[group].time, group});
    }
    std::make_heap(heap.begin(), heap.end());
    for (; next < items.size(); ++next) {
      const uint32_t item = items[next];
      if (next % kItemsPerLook == 0 && allowance_.stop_requested()) return false;
      while (!parked.empty() && groups_[parked.front().group].Holds(all_, item)) {
        std::pop_heap(parked.begin(), parked.end(), less_room);
        heap.push_back(parked.back());
        parked.pop_back();
        std::push_heap(heap.begin(), heap.end());
      }
      bool placed = false;
      while (!heap.empty() && !placed) {
        FilledGroup& group = groups_[heap.front().group];
        if (group.time + all_.cost(0, item) > most_) break;
        std::pop_heap(heap.begin(), heap.end());
        if (group.Holds(all_, item)) {
          group.Add(all_, item);
          heap.back().time = group.time;
          std::push_heap(heap.begin(), heap.end());
          placed = true;
        } else {
          parked.push_back(heap.back());
          heap.pop_back();
          std::push_heap(parked.begin(), parked.end(), less_room);
        }
      }
      if (!placed) later.push_back(item);
    }
    if (later.empty()) return true;
    // The remaining items go to the groups with most time left.
    std::vector<Entry> order;
    for (uint32_t group = 0; group < larges; ++group) order.push_back({groups_[group].time, group});
    std::make_heap(order.begin(), order.end());
    for (const uint32_t item : later) {
      bool placed = false;
      while (!order.empty() && !placed) {
        FilledGroup& group = groups_[order.front().group];
        std::pop_heap(order.begin(), order.end());
        if (CanTake(group, item)) {
          group.Add(all_, item);
          order.back().time = group.time;
          std::push_heap(order.begin(), order.end());
          placed = true;
        } else {
          order.pop_back();
        }
      }
      if (!placed) return false;
    }
    return true;
  }

  const ContextItems& all_;
  const Cost most_;
  const Allowance& allowance_;
  std::vector<uint32_t> free_;  // ranks, by slot
  size_t first_free_ = 0;
  std::vector<FilledGroup> groups_;
  std::vector<uint32_t> slot_of_;
  std::vector<std::vector<uint32_t>> recent_;  // groups, by size
};

}  // namespace

FilledSlot FillSlot(const ContextItems& all, Cost most, SlotFill fill, IndexSet& left) {
  return SlotFiller(all, most, left).Run(fill);
}

std::vector<FilledSlot> FillEvenly(const ContextItems& all, std::span<const uint32_t> items,
                                   uint64_t slots, Cost most, const Allowance& allowance) {
  return EvenFiller(all, slots, most, allowance).Run(items);
}

}  // namespace batchplan
