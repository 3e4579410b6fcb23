#include "server/planner/groups/megatron_slots.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "server/planner/packing/index_set.h"

namespace batchplan {
namespace {

// The bound of a slot's groups over the work of its longest sequence: 21/20.
constexpr uint32_t kBoundOver = 21;
constexpr uint32_t kBoundUnder = 20;
constexpr uint64_t kTicksAVisit = 30;
// Visits from one look for a stop to the next.
constexpr uint64_t kVisitsPerLook = 4096;

// L^2 / ranks, as a fraction.
struct Work {
  absl::uint128 squares = 0;
  uint32_t ranks = 1;

  friend bool operator<(const Work& a, const Work& b) {
    return a.squares * b.ranks < b.squares * a.ranks;
  }
};

struct Group {
  uint32_t size = 0;
  uint64_t tokens = 0;
  uint64_t sequences = 0;
  absl::uint128 squares = 0;
  std::vector<uint32_t> items = {};
};

struct Slot {
  std::vector<Group> groups = {};
  uint32_t free = 0;
};

class Scheduler {
 public:
  Scheduler(const ContextProblem& problem, const Allowance& allowance, uint64_t most_visits)
      : problem_(problem),
        allowance_(allowance),
        visits_left_(most_visits),
        ends_when_spent_(most_visits == kVisitsOfAllowance),
        by_length_(problem.items()),
        position_of_(problem.items()),
        waiting_(problem.items()),
        half_(problem.items()) {
    std::iota(by_length_.begin(), by_length_.end(), 0u);
    SortByLength(by_length_);
    for (uint32_t position = 0; position < by_length_.size(); ++position) {
      position_of_[by_length_[position]] = position;
      waiting_.Insert(position);
    }
  }

  std::optional<ContextSlots> Run() {
    std::vector<Slot> slots;
    while (waiting_.AtLeast(0) != IndexSet::kNone) {
      slots.push_back(Fill(waiting_, /*bounded=*/true));
      if (!UseFreeRanks(slots, waiting_) || !Visit(1)) return std::nullopt;
    }
    const uint64_t wanted = problem_.slots.RoundUp(slots.size());
    while (slots.size() < wanted) {
      if (!DivideASlot(slots) || !Visit(1)) return std::nullopt;
    }
    ContextSlots result;
    result.reserve(slots.size());
    for (Slot& slot : slots) result.push_back(InOrder(std::move(slot.groups)));
    return result;
  }

 private:
  // Spends visits of items and groups; false once there are no more or a stop is requested.
  bool Visit(uint64_t visits) {
    if (ended_) return false;
    allowance_.Spend(kTicksAVisit * visits);
    ended_ = visits > visits_left_ || (ends_when_spent_ && allowance_.spent());
    visits_left_ -= std::min(visits, visits_left_);
    since_look_ += visits;
    if (since_look_ >= kVisitsPerLook) {
      since_look_ = 0;
      ended_ = ended_ || allowance_.stop_requested();
    }
    return !ended_;
  }

  uint32_t ranks(uint32_t size) const { return problem_.sizes[size].ranks; }
  uint32_t count(uint32_t item) const {
    return problem_.counts.empty() ? 1 : problem_.counts[item];
  }
  absl::uint128 SquareOf(uint32_t item) const {
    const uint64_t tokens = problem_.sizes.front().tokens[item];
    return tokens * tokens;
  }
  Work WorkOf(const Group& group) const { return {group.squares, ranks(group.size)}; }
  Work WorkWith(const Group& group, uint32_t item) const {
    return {group.squares + SquareOf(item), ranks(group.size)};
  }

  bool Holds(uint32_t size, uint32_t item) const {
    return problem_.sizes[size].tokens[item] <= problem_.sizes[size].capacity;
  }
  bool Holds(const Group& group, uint32_t item) const {
    const ContextSize& size = problem_.sizes[group.size];
    return group.tokens + size.tokens[item] <= size.capacity &&
           (problem_.max_sequences == 0 || group.sequences + count(item) <= problem_.max_sequences);
  }

  void Put(uint32_t item, Group& group) const {
    group.tokens += problem_.sizes[group.size].tokens[item];
    group.sequences += count(item);
    group.squares += SquareOf(item);
    group.items.push_back(item);
  }
  Group GroupOf(uint32_t size, std::span<const uint32_t> items) const {
    Group group{.size = size};
    for (const uint32_t item : items) Put(item, group);
    return group;
  }
  // Whether the group fits that size.
  bool FitsIn(const Group& group, uint32_t size) const {
    uint64_t tokens = 0;
    for (const uint32_t item : group.items) tokens += problem_.sizes[size].tokens[item];
    return tokens <= problem_.sizes[size].capacity;
  }

  // Whether smaller groups can use the ranks left beside a new group. A pool that is no power of
  // two is a size too, which leaves no rank.
  bool Tiles(uint32_t size, uint32_t free) const {
    return ranks(size) <= free && (free - ranks(size)) % ranks(0) == 0;
  }

  static constexpr uint32_t kNowhere = UINT32_MAX;
  struct Place {
    // A group or, if that is kNowhere, a new one of this size.
    uint32_t group = kNowhere;
    uint32_t size = kNowhere;

    explicit operator bool() const { return size != kNowhere; }
  };

  // The groups of a slot that is being filled.
  struct Open {
    // By size, (load, group) and (tokens, group).
    std::vector<std::set<std::pair<absl::uint128, uint32_t>>> by_load;
    std::vector<std::set<std::pair<uint64_t, uint32_t>>> by_tokens;
    // The work of the most loaded group.
    Work most;
  };

  // The place of an item that keeps the slot's greatest work least.
  Place PlaceFor(const Slot& slot, const Open& open, uint32_t item, const Work* bound) {
    Place best;
    Work least;
    for (uint32_t size = 0; size < problem_.sizes.size(); ++size) {
      if (!Holds(size, item)) continue;
      // The least loaded place of that size: free ranks, or a group.
      Place place;
      Work work;
      if (Tiles(size, slot.free)) {
        place = {.size = size};
        work = {SquareOf(item), ranks(size)};
      } else {
        place.group = LeastLoaded(slot, open, size, item, bound);
        if (place.group == kNowhere) continue;
        place.size = size;
        work = WorkWith(slot.groups[place.group], item);
      }
      if (bound != nullptr && *bound < work) continue;
      const Work result = std::max(open.most, work);
      if (best && !(result < least)) continue;
      best = place;
      least = result;
    }
    return best;
  }

  // The least loaded group of that size that holds the item within the bound.
  uint32_t LeastLoaded(const Slot& slot, const Open& open, uint32_t size, uint32_t item,
                       const Work* bound) {
    const ContextSize& limits = problem_.sizes[size];
    const auto& emptiest = open.by_tokens[size];
    if (emptiest.empty() || emptiest.begin()->first + limits.tokens[item] > limits.capacity) {
      return kNowhere;
    }
    for (const auto& [load, group] : open.by_load[size]) {
      if (!Visit(1)) return kNowhere;
      if (bound != nullptr && *bound < WorkWith(slot.groups[group], item)) return kNowhere;
      if (Holds(slot.groups[group], item)) return group;
    }
    return kNowhere;
  }

  void PutAt(uint32_t item, const Place& place, Slot& slot) const {
    if (place.group == kNowhere) {
      slot.groups.push_back({.size = place.size});
      slot.free -= ranks(place.size);
    }
    Put(item, slot.groups[place.group == kNowhere ? slot.groups.size() - 1 : place.group]);
  }
  void PutAt(uint32_t item, const Place& place, Slot& slot, Open& open) const {
    const bool opens = place.group == kNowhere;
    const auto number = opens ? static_cast<uint32_t>(slot.groups.size()) : place.group;
    if (!opens) {
      open.by_load[place.size].erase({slot.groups[number].squares, number});
      open.by_tokens[place.size].erase({slot.groups[number].tokens, number});
    }
    PutAt(item, place, slot);
    const Group& group = slot.groups[number];
    open.by_load[place.size].insert({group.squares, number});
    open.by_tokens[place.size].insert({group.tokens, number});
    open.most = std::max(open.most, WorkOf(group));
  }

  // Fills a slot with waiting items, by position in descending length. Those that it can't hold
  // stay in `waiting`.
  Slot Fill(IndexSet& waiting, bool bounded) {
    Slot slot{.groups = {}, .free = problem_.pool};
    Open open;
    open.by_load.resize(problem_.sizes.size());
    open.by_tokens.resize(problem_.sizes.size());
    Work bound;
    const Work* const limit = bounded ? &bound : nullptr;
    size_t position = waiting.AtLeast(0);
    while (position != IndexSet::kNone && Visit(1)) {
      const uint32_t item = by_length_[position];
      Place place;
      if (slot.groups.empty()) {
        place = Opening(item);
        bound = {SquareOf(item) * kBoundOver, ranks(place.size) * kBoundUnder};
      } else {
        place = PlaceFor(slot, open, item, limit);
      }
      size_t next = position + 1;
      if (place) {
        PutAt(item, place, slot, open);
        waiting.Erase(position);
      } else if (problem_.counts.empty()) {
        // If an item of one sequence finds room, shorter ones do too.
        next = FirstOf(next, [&](uint32_t other) {
          return static_cast<bool>(PlaceFor(slot, open, other, limit));
        });
      }
      position = waiting.AtLeast(next);
    }
    return slot;
  }

  // The first position from `from` on whose item can be placed, if all shorter items can be too.
  template <typename CanBePlaced>
  size_t FirstOf(size_t from, CanBePlaced can_be_placed) {
    const auto first = by_length_.begin();
    return std::partition_point(first + static_cast<ptrdiff_t>(from), by_length_.end(),
                                [&](uint32_t item) { return !can_be_placed(item); }) -
           first;
  }

  // The least size that holds an item; some size does.
  Place Opening(uint32_t item) const {
    uint32_t size = 0;
    while (size + 1 < problem_.sizes.size() && !Holds(size, item)) ++size;
    return {.size = size};
  }

  // Gives the free ranks of the last slot work.
  bool UseFreeRanks(std::vector<Slot>& slots, IndexSet& waiting) {
    Slot& slot = slots.back();
    Doublings doublings = DoublingsOf(slot);
    while (slot.free > 0) {
      if (!Visit(1)) return false;
      if (Enlarge(slot, doublings)) continue;
      if (TakeWaiting(waiting, slot)) {
        AddDoubling(slot, static_cast<uint32_t>(slot.groups.size()) - 1, doublings);
        continue;
      }
      if (TakeFromGroups(slots) || TakeWholePool(slot, waiting)) {
        doublings = DoublingsOf(slot);
        continue;
      }
      if (!problem_.allow_empty || ++empty_ > kMaxEmptyMicrobatches) return false;
      const uint32_t size = LargestWithin(slot.free);
      slot.groups.push_back({.size = size});
      slot.free -= ranks(size);
      AddDoubling(slot, static_cast<uint32_t>(slot.groups.size()) - 1, doublings);
    }
    return true;
  }

  // The groups of a slot that would fit on twice as many ranks, by size and number.
  using Doublings = std::set<std::pair<uint32_t, uint32_t>>;
  Doublings DoublingsOf(const Slot& slot) {
    Doublings doublings;
    if (slot.free == 0) return doublings;
    for (uint32_t group = 0; group < slot.groups.size() && Visit(1); ++group) {
      AddDoubling(slot, group, doublings);
    }
    return doublings;
  }
  void AddDoubling(const Slot& slot, uint32_t number, Doublings& doublings) const {
    const Group& group = slot.groups[number];
    const uint32_t next = group.size + 1;
    if (next == problem_.sizes.size() || ranks(next) != 2 * ranks(group.size)) return;
    if (FitsIn(group, next)) doublings.insert({group.size, number});
  }

  // Doubles the ranks of the first group of the smallest size that allows it.
  bool Enlarge(Slot& slot, Doublings& doublings) const {
    if (doublings.empty() || ranks(doublings.begin()->first) > slot.free) return false;
    const auto [size, number] = *doublings.begin();
    doublings.erase(doublings.begin());
    slot.free -= ranks(size);
    slot.groups[number] = GroupOf(size + 1, slot.groups[number].items);
    AddDoubling(slot, number, doublings);
    return true;
  }

  uint32_t LargestWithin(uint32_t free) const {
    uint32_t size = 0;
    while (size + 1 < problem_.sizes.size() && ranks(size + 1) <= free) ++size;
    return size;
  }

  // A new group on free ranks, of the least size that holds the item.
  Place OnFreeRanks(const Slot& slot, uint32_t item) const {
    for (uint32_t size = 0; size < problem_.sizes.size() && Tiles(size, slot.free); ++size) {
      if (Holds(size, item)) return {.size = size};
    }
    return {};
  }

  // Puts the longest waiting sequence that fits on the free ranks there, whatever the bound.
  bool TakeWaiting(IndexSet& waiting, Slot& slot) {
    size_t from = 0;
    if (problem_.counts.empty()) {
      from = FirstOf(0, [&](uint32_t item) { return static_cast<bool>(OnFreeRanks(slot, item)); });
    }
    for (size_t position = waiting.AtLeast(from); position != IndexSet::kNone && Visit(1);
         position = waiting.AtLeast(position + 1)) {
      const uint32_t item = by_length_[position];
      const Place place = OnFreeRanks(slot, item);
      if (!place) continue;
      PutAt(item, place, slot);
      waiting.Erase(position);
      return true;
    }
    return false;
  }

  // Puts there the last, and so shortest, sequence of a group of several, from this slot or an
  // earlier one.
  bool TakeFromGroups(std::vector<Slot>& slots) {
    Slot& slot = slots.back();
    for (size_t s = slots.size(); s-- > 0;) {
      for (Group& group : slots[s].groups) {
        if (!Visit(1)) return false;
        if (group.items.size() < 2) continue;
        const uint32_t item = group.items.back();
        const Place place = OnFreeRanks(slot, item);
        if (!place) continue;
        group.items.pop_back();
        group = GroupOf(group.size, group.items);
        PutAt(item, place, slot);
        return true;
      }
    }
    return false;
  }

  // Puts the slot's longest sequences into one group of the whole pool, as many as it holds; the
  // others wait again. False if alignment makes each of them too long for the pool.
  bool TakeWholePool(Slot& slot, IndexSet& waiting) {
    const auto whole = static_cast<uint32_t>(problem_.sizes.size() - 1);
    size_t in_slot = 0;
    bool holds_one = false;
    for (const Group& group : slot.groups) {
      in_slot += group.items.size();
      for (const uint32_t item : group.items) holds_one = holds_one || Holds(whole, item);
    }
    if (ranks(whole) != problem_.pool || !holds_one) return false;
    for (const Group& group : slot.groups) {
      for (const uint32_t item : group.items) waiting.Insert(position_of_[item]);
    }
    slot = {.groups = {{.size = whole}}, .free = 0};
    for (size_t position = waiting.AtLeast(0);
         position != IndexSet::kNone && in_slot > 0 && Visit(1);
         position = waiting.AtLeast(position + 1)) {
      if (!Holds(slot.groups[0], by_length_[position])) continue;
      Put(by_length_[position], slot.groups[0]);
      waiting.Erase(position);
      --in_slot;
    }
    return true;
  }

  // Longest first, of equal ones the first.
  void SortByLength(std::vector<uint32_t>& items) const {
    // By tokens of the smallest size, whose alignment is finest.
    const std::vector<uint32_t>& tokens = problem_.sizes.front().tokens;
    std::sort(items.begin(), items.end(), [&](uint32_t a, uint32_t b) {
      return tokens[a] > tokens[b] || (tokens[a] == tokens[b] && a < b);
    });
  }

  // Divides a slot with several sequences in two, which get every other one of them.
  bool DivideASlot(std::vector<Slot>& slots) {
    std::vector<std::pair<size_t, size_t>> by_items;
    for (size_t s = 0; s < slots.size(); ++s) {
      if (!Visit(1 + slots[s].groups.size())) return false;
      size_t items = 0;
      for (const Group& group : slots[s].groups) items += group.items.size();
      if (items > 1) by_items.push_back({items, s});
    }
    std::stable_sort(by_items.begin(), by_items.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [items, s] : by_items) {
      std::vector<uint32_t> all;
      for (const Group& group : slots[s].groups) {
        all.insert(all.end(), group.items.begin(), group.items.end());
      }
      SortByLength(all);
      std::optional<Slot> halves[2];
      for (size_t half = 0; half < 2; ++half) {
        for (size_t i = half; i < all.size(); i += 2) half_.Insert(position_of_[all[i]]);
        std::vector<Slot> alone = {Fill(half_, /*bounded=*/false)};
        const auto none_waits = [&] { return half_.AtLeast(0) == IndexSet::kNone; };
        if (none_waits() && UseFreeRanks(alone, half_) && none_waits()) halves[half] = alone[0];
        for (size_t i = half; i < all.size(); i += 2) half_.Erase(position_of_[all[i]]);
      }
      if (!halves[0] || !halves[1]) continue;
      slots[s] = *std::move(halves[0]);
      slots.insert(slots.begin() + static_cast<ptrdiff_t>(s) + 1, *std::move(halves[1]));
      return true;
    }
    if (!problem_.allow_empty) return false;
    std::vector<Slot> empty = {{.groups = {}, .free = problem_.pool}};
    if (!UseFreeRanks(empty, half_)) return false;
    slots.push_back(std::move(empty[0]));
    return true;
  }

  std::vector<ContextGroup> InOrder(std::vector<Group> groups) const {
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Group& a, const Group& b) { return a.size > b.size; });
    std::vector<ContextGroup> ordered;
    ordered.reserve(groups.size());
    for (Group& group : groups) ordered.push_back({group.size, std::move(group.items)});
    return ordered;
  }

  const ContextProblem& problem_;
  const Allowance& allowance_;
  uint64_t visits_left_;
  const bool ends_when_spent_;
  uint64_t since_look_ = kVisitsPerLook;
  bool ended_ = false;
  uint64_t empty_ = 0;  // groups
  std::vector<uint32_t> by_length_;
  std::vector<uint32_t> position_of_;  // there
  // Positions of items that are in no slot yet, and of items of a slot that is being divided.
  IndexSet waiting_;
  IndexSet half_;
};

}  // namespace

std::optional<ContextSlots> MegatronSlots(const ContextProblem& problem, const Allowance& allowance,
                                          uint64_t most_visits) {
  return Scheduler(problem, allowance, most_visits).Run();
}

}  // namespace batchplan
