// Filling within a time. SlotFiller fills one slot and leaves what does not fit; FillEvenly needs
// room for everything.
//
// An item's size is the one of least rank-time within the time. SlotFiller opens groups for the
// longest items until the ranks are used up, then completes each group with the longest items that
// it still holds, the fullest group first; or it puts every item into the fullest group that holds
// it. FillEvenly places large items first, each into the tightest recent group of its size or a new
// one. Small items follow by longest processing time first; those that find no time in small groups
// go to large groups with time left. Free ranks go to the slowest groups, which are divided or get
// larger (UseFreeRanks).

#include "server/planner/groups/fill_slots.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace batchplan {
namespace {

// The most items looked at for one that a group holds, if items do not descend alike in all sizes.
constexpr int kMostLooks = 32;
// The most open groups of a size that are asked for an item.
constexpr size_t kMostAsked = 64;

}  // namespace

SlotFiller::SlotFiller(const ContextItems& all, IndexSet& left)
    : all_(all), left_(left), drafts_(all), least_over_(all.sizes(), 0) {}

bool SlotFiller::Fill(Cost most, SlotFill fill) {
  most_ = most;
  free_ = all_.problem().pool;
  drafts_.Clear();
  slot_.clear();
  if (fill == SlotFill::kOpenFirst) {
    OpenFirst();
  } else {
    BestFit();
  }
  Complete();
  for (const DraftGroups::Placed& placed : drafts_.placed()) left_.Insert(placed.item);
  if (drafts_.empty()) return false;
  if (free_ == 0) return true;
  slot_ = drafts_.Filled();
  return UseFreeRanks(all_, free_, slot_);
}

size_t SlotFiller::groups() const { return slot_.empty() ? drafts_.size() : slot_.size(); }

Cost SlotFiller::slowest() const {
  if (!slot_.empty()) return SlowestTime(slot_);
  Cost slowest = 0;
  for (const DraftGroup& group : drafts_.groups()) slowest = std::max(slowest, group.time);
  return slowest;
}

FilledSlot SlotFiller::Take() {
  return slot_.empty() ? drafts_.Filled() : std::exchange(slot_, {});
}

void SlotFiller::Add(uint32_t group, uint32_t item) {
  drafts_.Add(group, item);
  left_.Erase(item);
}

size_t SlotFiller::LongestFor(const DraftGroup& group, size_t from) const {
  if (group.time > most_) return IndexSet::kNone;
  const size_t first = all_.FirstWithin(group.size, most_ - group.time,
                                        all_.capacity(group.size) - group.tokens, from);
  size_t item = first >= all_.size() ? IndexSet::kNone : left_.AtLeast(first);
  for (int looks = 0; item != IndexSet::kNone && looks < kMostLooks; ++looks) {
    if (group.CanTake(all_, static_cast<uint32_t>(item), most_)) return item;
    item = left_.AtLeast(item + 1);
  }
  return IndexSet::kNone;
}

size_t SlotFiller::NextToOpen(size_t from) const {
  uint32_t largest = all_.sizes();
  while (largest > 0 && all_.ranks(largest - 1) > free_) --largest;
  if (largest == 0) return IndexSet::kNone;
  return LongestFor({.size = largest - 1, .time = all_.whole_row(largest - 1)}, from);
}

bool SlotFiller::Open(uint32_t item, uint32_t size) {
  if (size == all_.sizes()) return false;
  if (all_.ranks(size) > free_) {
    // The first item decides; others may have a smaller size, if only that many ranks are free.
    for (uint32_t smaller = size; smaller-- > 0;) {
      if (all_.ranks(smaller) > free_ || all_.Alone(smaller, item) > most_ ||
          !all_.MayTake(smaller, item)) {
        continue;
      }
      OpenOf(smaller, item);
      return true;
    }
    return false;
  }
  OpenOf(size, item);
  return true;
}

void SlotFiller::OpenOf(uint32_t size, uint32_t item) {
  free_ -= all_.ranks(size);
  drafts_.Open(size, item);
  left_.Erase(item);
}

void SlotFiller::OpenFirst() {
  size_t item = left_.AtLeast(0);
  while (item != IndexSet::kNone) {
    const auto longest = static_cast<uint32_t>(item);
    const bool opened = Open(longest, all_.SizeWithin(longest, most_));
    if (drafts_.empty() && !opened) return;
    if (free_ == 0) return;
    item = NextToOpen(item + 1);
  }
}

void SlotFiller::BestFit() {
  size_t item = left_.AtLeast(0);
  while (item != IndexSet::kNone) {
    const auto longest = static_cast<uint32_t>(item);
    const uint32_t size = all_.SizeWithin(longest, most_);
    if (const std::optional<uint32_t> fullest = FullestFor(longest, size)) {
      Add(*fullest, longest);
    } else if (!Open(longest, size) && drafts_.empty()) {
      return;
    }
    if (free_ == 0) return;
    item = NextToOpen(item + 1);
  }
}

std::optional<uint32_t> SlotFiller::FullestFor(uint32_t item, uint32_t size) {
  // Groups of these times are too slow with the item.
  const uint32_t sizes = std::min(size + 1, all_.sizes());
  for (uint32_t of = 0; of < sizes; ++of) {
    const Cost cost = all_.cost(of, item);
    least_over_[of] = cost > most_ ? 0 : most_ - cost + 1;
  }
  std::fill(least_over_.begin() + sizes, least_over_.end(), 0);
  const std::span<const DraftGroup> groups = drafts_.groups();
  std::optional<uint32_t> fullest;
  Cost least = 0;  // of what is fuller
  for (size_t i = groups.size() - std::min(groups.size(), kMostAsked); i < groups.size(); ++i) {
    const DraftGroup& group = groups[i];
    if (group.time < least || group.time >= least_over_[group.size]) continue;
    if (!group.Holds(all_, item)) continue;
    fullest = static_cast<uint32_t>(i);
    least = group.time + 1;
  }
  return fullest;
}

void SlotFiller::Complete() {
  order_.clear();
  for (uint32_t i = 0; i < drafts_.size(); ++i) order_.emplace_back(~drafts_[i].time, i);
  std::sort(order_.begin(), order_.end());
  for (const auto& [time, group] : order_) {
    size_t item = LongestFor(drafts_[group], 0);
    while (item != IndexSet::kNone) {
      Add(group, static_cast<uint32_t>(item));
      item = LongestFor(drafts_[group], item);
    }
  }
}

namespace {

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
        groups_(all),
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
    std::vector<FilledGroup> filled = groups_.Filled();
    for (size_t i = 0; i < filled.size(); ++i) {
      slots[slot_of_[i]].push_back(std::move(filled[i]));
    }
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot].empty() && !all_.problem().allow_empty) return {};
      if (!UseFreeRanks(all_, free_[slot], slots[slot])) return {};
    }
    return slots;
  }

 private:
  bool PlaceLarge(uint32_t item, uint32_t size) {
    for (uint32_t of = size; of < all_.sizes(); ++of) {
      std::optional<uint32_t> tightest;
      const std::vector<uint32_t>& recent = recent_[of];
      for (size_t i = recent.size() - std::min(recent.size(), kMostAsked); i < recent.size(); ++i) {
        const DraftGroup& group = groups_[recent[i]];
        if (tightest && group.time <= groups_[*tightest].time) continue;
        if (group.CanTake(all_, item, most_)) tightest = recent[i];
      }
      if (tightest) {
        groups_.Add(*tightest, item);
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
    groups_.Open(size, item);
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
        const DraftGroup& group = groups_[heap.front().group];
        if (group.time + all_.cost(0, item) > most_) break;
        std::pop_heap(heap.begin(), heap.end());
        if (group.Holds(all_, item)) {
          groups_.Add(heap.back().group, item);
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
        const DraftGroup& group = groups_[order.front().group];
        std::pop_heap(order.begin(), order.end());
        if (group.CanTake(all_, item, most_)) {
          groups_.Add(order.back().group, item);
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
  DraftGroups groups_;
  std::vector<uint32_t> slot_of_;
  std::vector<std::vector<uint32_t>> recent_;  // groups, by size
};

}  // namespace

std::vector<FilledSlot> FillEvenly(const ContextItems& all, std::span<const uint32_t> items,
                                   uint64_t slots, Cost most, const Allowance& allowance) {
  return EvenFiller(all, slots, most, allowance).Run(items);
}

}  // namespace batchplan
