// Large groups run first, so that ranks hardly wait.
//
// A lane is the ranks of a smallest group. Items that need a larger size to keep the time get a
// group each. These groups are poured into the slots in descending size: groups of one size stand
// side by side at multiples of their width, and the slowest group of a slot goes to the lanes that
// are free first. So a group's lanes come from one earlier group, or from several that stood
// exactly in its place, and hardly wait. Small items then go, the longest first, to the lane that
// is done first, in its group with most room. At last lanes exchange small items
// (even_out_groups.h).

#include "server/planner/groups/accumulated_groups.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "server/planner/groups/even_out_groups.h"

namespace batchplan {
namespace {

// Slots from one look for a stop to the next.
constexpr uint32_t kPouredPerLook = 64;

class AccumulatedFiller {
 public:
  AccumulatedFiller(const ContextItems& all, uint64_t slots, Cost most, const Allowance& allowance)
      : all_(all),
        most_(most),
        allowance_(allowance),
        count_(slots),
        lanes_(all.problem().pool / all.ranks(0)) {}

  // Lanes are the ranks of the smallest groups.
  bool Fill() {
    if (uint64_t{all_.problem().pool} % all_.ranks(0) != 0) return false;
    std::vector<FilledGroup> large;
    std::vector<uint32_t> small;
    for (uint32_t item = 0; item < all_.size(); ++item) {
      if (item % kItemsPerLook == 0 && allowance_.stop_requested()) return false;
      const uint32_t size = all_.SizeWithin(item, most_);
      if (size == all_.sizes()) return false;
      if (size == 0) {
        small.push_back(item);
      } else {
        large.push_back({.size = size});
        large.back().Add(all_, item);
      }
    }
    // Each lane that the large groups leave to small ones gets an item.
    uint64_t taken = 0;
    for (const FilledGroup& group : large) taken += Width(group.size);
    const uint64_t free = count_ * lanes_ - std::min(taken, count_ * lanes_);
    if (free > (all_.problem().allow_empty ? all_.problem().most_groups() : small.size())) {
      return false;
    }
    slots_.resize(count_);
    return Pour(std::move(large)) && FillLanes(small);
  }

  std::vector<FilledSlot>& slots() { return slots_; }
  // By lane, the places of its smallest groups: (slot, group).
  const std::vector<std::vector<std::pair<uint32_t, uint32_t>>>& lane_groups() const {
    return groups_of_;
  }
  const std::vector<Cost>& busy() const { return busy_; }

 private:
  uint32_t Width(uint32_t size) const { return all_.ranks(size) / all_.ranks(0); }

  bool Pour(std::vector<FilledGroup> large) {
    std::stable_sort(large.begin(), large.end(), [](const FilledGroup& a, const FilledGroup& b) {
      return std::pair(b.size, b.time) < std::pair(a.size, a.time);
    });
    busy_.assign(lanes_, 0);
    grain_ = lanes_;
    groups_of_.resize(lanes_);
    // By size, the first large group that is not in a slot yet.
    std::vector<size_t> next(all_.sizes() + 1, large.size());
    for (size_t i = large.size(); i-- > 0;) next[large[i].size] = i;
    std::vector<size_t> end = next;
    {
      size_t behind = large.size();
      for (uint32_t size = 0; size < all_.sizes(); ++size) {
        if (next[size] == large.size()) {
          next[size] = behind;
        }
        end[size] = behind;
        behind = next[size];
      }
    }
    size_t left = large.size();
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      if (slot % kPouredPerLook == 0 && allowance_.stop_requested()) return false;
      uint32_t lane = 0;
      for (uint32_t size = all_.sizes(); size-- > 1;) {
        const uint32_t width = Width(size);
        const size_t first = next[size];
        uint32_t begin = lane;
        while (next[size] < end[size] && lane + width <= lanes_) {
          ++next[size];
          --left;
          lane += width;
        }
        Stand(large, first, next[size], begin, width, slot);
      }
      for (; lane < lanes_; ++lane) {
        groups_of_[lane].emplace_back(slot, static_cast<uint32_t>(slots_[slot].size()));
        slots_[slot].push_back({.size = 0});
      }
    }
    Refine(1);
    return left == 0;
  }

  // Groups of a width begin at multiples of it, and smaller ones come before them only to fill up a
  // slot. So until smaller groups come, the lanes between two multiples are alike.
  void Refine(uint32_t width) {
    if (width >= grain_) return;
    for (uint32_t lane = 0; lane < lanes_; lane += width) {
      busy_[lane] = busy_[lane / grain_ * grain_];
    }
    grain_ = width;
  }

  // Groups [first, end) of one size, descending in time, on lanes from `begin` on.
  void Stand(std::vector<FilledGroup>& large, size_t first, size_t end, uint32_t begin,
             uint32_t width, uint32_t slot) {
    if (first == end) return;
    Refine(width);
    std::vector<uint32_t> blocks(end - first);
    for (uint32_t i = 0; i < blocks.size(); ++i) blocks[i] = begin + i * width;
    const auto busy = [&](uint32_t block) {
      Cost until = 0;
      for (uint32_t lane = block; lane < block + width; lane += grain_) {
        until = std::max(until, busy_[lane]);
      }
      return until;
    };
    std::vector<std::pair<Cost, uint32_t>> by_busy;
    by_busy.reserve(blocks.size());
    for (const uint32_t block : blocks) by_busy.emplace_back(busy(block), block);
    std::sort(by_busy.begin(), by_busy.end());
    std::vector<std::pair<uint32_t, size_t>> places;
    for (size_t i = first; i < end; ++i) {
      const auto [until, block] = by_busy[i - first];
      for (uint32_t lane = block; lane < block + width; lane += grain_) {
        busy_[lane] = until + large[i].time;
      }
      places.emplace_back(block, i);
    }
    std::sort(places.begin(), places.end());
    for (const auto& [block, i] : places) slots_[slot].push_back(std::move(large[i]));
  }

  FilledGroup& Group(std::pair<uint32_t, uint32_t> place) {
    return slots_[place.first][place.second];
  }

  // Entries of a heap whose least is on top.
  using Heap = std::vector<std::pair<uint64_t, uint32_t>>;
  static void Push(Heap& heap, uint64_t key, uint32_t index) {
    heap.emplace_back(key, index);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  static std::pair<uint64_t, uint32_t> Pop(Heap& heap) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto top = heap.back();
    heap.pop_back();
    return top;
  }

  bool FillLanes(const std::vector<uint32_t>& small) {
    Heap fastest;                        // lanes by how long they are busy
    Heap parked;                         // lanes by tokens of their roomiest group
    std::vector<Heap> roomiest(lanes_);  // groups of a lane by tokens
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      if (groups_of_[lane].empty()) continue;
      for (uint32_t i = 0; i < groups_of_[lane].size(); ++i) Push(roomiest[lane], 0, i);
      Push(fastest, busy_[lane], lane);
    }
    const auto roomiest_of = [&](uint32_t lane) -> FilledGroup& {
      return Group(groups_of_[lane][roomiest[lane].front().second]);
    };
    for (const uint32_t item : small) {
      if (item % kItemsPerLook == 0 && allowance_.stop_requested()) return false;
      while (!parked.empty() && roomiest_of(parked.front().second).Holds(all_, item)) {
        const uint32_t lane = Pop(parked).second;
        Push(fastest, busy_[lane], lane);
      }
      bool placed = false;
      while (!fastest.empty() && !placed) {
        const uint32_t lane = Pop(fastest).second;
        FilledGroup& group = roomiest_of(lane);
        if (group.Holds(all_, item)) {
          busy_[lane] += group.TimeWith(all_, item) - group.time;
          group.Add(all_, item);
          const uint32_t index = Pop(roomiest[lane]).second;
          Push(roomiest[lane], group.tokens, index);
          Push(fastest, busy_[lane], lane);
          placed = true;
        } else {
          Push(parked, group.tokens, lane);
        }
      }
      if (!placed) return false;
    }
    return all_.problem().allow_empty || SpreadInLanes();
  }

  // Gives every group an item.
  bool SpreadInLanes() {
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      for (const auto& place : groups_of_[lane]) {
        FilledGroup& group = Group(place);
        if (!group.items.empty()) continue;
        FilledGroup* most = nullptr;
        for (const auto& other : groups_of_[lane]) {
          FilledGroup& candidate = Group(other);
          if (candidate.items.size() < 2) continue;
          if (most == nullptr || candidate.items.size() > most->items.size()) most = &candidate;
        }
        if (most == nullptr) return false;
        const uint32_t item = most->items.back();
        most->Remove(all_, most->items.size() - 1);
        group.Add(all_, item);
        busy_[lane] += all_.whole_row(0);
      }
    }
    return true;
  }

  const ContextItems& all_;
  const Cost most_;
  const Allowance& allowance_;
  const uint64_t count_;
  std::vector<FilledSlot> slots_;
  const uint32_t lanes_;
  // By lane; only multiples of the width of the smallest groups so far are up to date.
  std::vector<Cost> busy_;
  uint32_t grain_ = 1;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> groups_of_;
};

}  // namespace

std::vector<FilledSlot> FillAccumulated(const ContextItems& all, uint64_t slots, Cost most,
                                        uint64_t steps, const Allowance& allowance) {
  AccumulatedFiller filler(all, slots, most, allowance);
  if (!filler.Fill() || allowance.stop_requested()) return {};
  std::vector<RankGroups> ranks;
  for (uint32_t lane = 0; lane < filler.lane_groups().size(); ++lane) {
    RankGroups& rank = ranks.emplace_back();
    Cost own = 0;
    for (const auto& [slot, group] : filler.lane_groups()[lane]) {
      rank.groups.push_back(&filler.slots()[slot][group]);
      own += rank.groups.back()->time;
    }
    rank.before = filler.busy()[lane] - own;
  }
  EvenOutRanks(all, steps, allowance, ranks);
  return std::move(filler.slots());
}

}  // namespace batchplan
