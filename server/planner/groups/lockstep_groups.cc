// Slots of one common time, and changes of their number.
//
// LeastEvenSlots looks for the least time within which all items fit into a number of slots: it
// starts at the least time that the work needs, doubles the step until FillEvenly succeeds, and
// bisects to 1/2000. RaiseSlots divides the slots with most items until their number is allowed;
// DissolveShortest removes one. RefillSlots takes two to four random slots apart and fills their
// items in turn again, with a random length of slots: large neighbourhood search.

#include "server/planner/groups/lockstep_groups.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <set>
#include <utility>

#include "absl/numeric/int128.h"
#include "server/planner/groups/even_out_groups.h"
#include "server/planner/groups/fill_in_turn.h"
#include "server/planner/groups/fill_slots.h"

namespace batchplan {
namespace {

constexpr uint64_t kTicksAPlacement = 60;
// For a group that is looked at.
constexpr uint64_t kTicksAGroupTried = 2;
// Bisection ends within 1 / kCloseEnough of the time.
constexpr Cost kCloseEnough = 2000;

size_t ItemsOf(const FilledSlot& slot) {
  size_t items = 0;
  for (const FilledGroup& group : slot) items += group.items.size();
  return items;
}

// Divides the groups of a slot, or the items of its only group, between two slots.
bool Divide(const ContextItems& all, FilledSlot& slot, FilledSlot& other) {
  FilledSlot halves[2];
  uint32_t free[2] = {all.problem().pool, all.problem().pool};
  if (slot.size() > 1) {
    for (size_t i = 0; i < slot.size(); ++i) {
      if (slot[i].items.empty()) continue;
      halves[i % 2].push_back(slot[i]);
      free[i % 2] -= all.ranks(slot[i].size);
    }
  } else {
    if (slot.front().items.size() < 2) return false;
    const uint32_t size = slot.front().size;
    for (int half = 0; half < 2; ++half) {
      halves[half].push_back({.size = size});
      free[half] -= all.ranks(size);
    }
    for (size_t i = 0; i < slot.front().items.size(); ++i) {
      halves[i % 2].front().Add(all, slot.front().items[i]);
    }
  }
  for (int half = 0; half < 2; ++half) {
    if (halves[half].empty() || !UseFreeRanks(all, free[half], halves[half])) return false;
  }
  slot = std::move(halves[0]);
  other = std::move(halves[1]);
  return true;
}

}  // namespace

std::vector<FilledSlot> LeastEvenSlots(const ContextItems& all, std::span<const uint32_t> items,
                                       uint64_t slots, const Allowance& allowance) {
  // `low`: the rank-time that the items need. Some longer time suffices if any does.
  absl::uint128 work = 0;
  Cost low = 0;
  Cost most = 0;
  for (const uint32_t item : items) {
    Cost fastest = ~Cost{0};
    absl::uint128 least = ~absl::uint128(0);
    for (uint32_t size = 0; size < all.sizes(); ++size) {
      if (!all.MayTake(size, item)) continue;
      fastest = std::min(fastest, all.Alone(size, item));
      least = std::min(least, all.RankTimeOf(size, item));
    }
    if (fastest == ~Cost{0}) return {};
    low = std::max(low, fastest);
    most += fastest;
    work += least;
  }
  low = std::max(low, absl::Uint128Low64(work / (absl::uint128(slots) * all.problem().pool)));
  const auto fill = [&](Cost time) {
    allowance.Spend(kTicksAPlacement * items.size());
    return FillEvenly(all, items, slots, time, allowance);
  };
  std::vector<FilledSlot> best;
  Cost high = low;
  for (Cost step = low / 64 + 1;; step *= 2) {
    if (allowance.stop_requested()) return {};
    best = fill(high);
    if (!best.empty()) break;
    if (high > most + low) return {};
    low = high;
    high += step;
  }
  while (high - low > low / kCloseEnough && !allowance.stop_requested()) {
    const Cost middle = low + (high - low) / 2;
    std::vector<FilledSlot> filled = fill(middle);
    if (filled.empty()) {
      low = middle;
    } else {
      best = std::move(filled);
      high = middle;
    }
    if (middle == low && high - low <= 1) break;
  }
  return best;
}

bool RaiseSlots(const ContextItems& all, std::vector<FilledSlot>& slots) {
  const uint64_t count = all.problem().slots.RoundUp(slots.size());
  // Slots with most items first, of equal ones the first.
  std::set<std::pair<size_t, size_t>> by_items;
  if (slots.size() < count && !all.problem().allow_empty) {
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      by_items.emplace(~ItemsOf(slots[slot]), slot);
    }
  }
  while (slots.size() < count) {
    if (all.problem().allow_empty) {
      FilledSlot& slot = slots.emplace_back();
      if (!UseFreeRanks(all, all.problem().pool, slot)) return false;
      continue;
    }
    FilledSlot other;
    bool divided = false;
    for (auto at = by_items.begin(); at != by_items.end(); ++at) {
      const size_t slot = at->second;
      divided = Divide(all, slots[slot], other);
      if (!divided) continue;
      by_items.erase(at);
      by_items.emplace(~ItemsOf(slots[slot]), slot);
      by_items.emplace(~ItemsOf(other), slots.size());
      break;
    }
    if (!divided) return false;
    slots.push_back(std::move(other));
  }
  return true;
}

bool DissolveShortest(const ContextItems& all, const Allowance& allowance,
                      std::vector<FilledSlot>& slots) {
  if (slots.size() < 2) return false;
  std::vector<Cost> times;
  uint64_t groups = 0;
  for (const FilledSlot& slot : slots) {
    times.push_back(SlowestTime(slot));
    groups += slot.size();
  }
  const size_t shortest = std::min_element(times.begin(), times.end()) - times.begin();
  std::vector<uint32_t> items;
  for (const FilledGroup& group : slots[shortest]) {
    items.insert(items.end(), group.items.begin(), group.items.end());
  }
  const uint64_t ticks = kTicksAGroupTried * items.size() * groups;
  if (ticks > allowance.left()) return false;
  allowance.Spend(ticks);
  std::sort(items.begin(), items.end());
  slots.erase(slots.begin() + static_cast<ptrdiff_t>(shortest));
  times.erase(times.begin() + static_cast<ptrdiff_t>(shortest));
  for (const uint32_t item : items) {
    if (allowance.stop_requested()) return false;
    FilledGroup* best = nullptr;
    int64_t least = 0;
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      for (FilledGroup& group : slots[slot]) {
        if (!group.Holds(all, item)) continue;
        const int64_t over =
            static_cast<int64_t>(group.TimeWith(all, item)) - static_cast<int64_t>(times[slot]);
        if (best != nullptr && over >= least) continue;
        best = &group;
        least = over;
      }
    }
    if (best == nullptr) return false;
    best->Add(all, item);
  }
  return true;
}

void RefillSlots(const ContextItems& all, uint64_t tries, const Allowance& allowance,
                 std::vector<FilledSlot>& slots) {
  if (slots.size() < 2) return;
  const Cost fixed = all.problem().per_microbatch;
  std::minstd_rand random;
  for (; tries > 0 && !allowance.stop_requested() && !allowance.spent(); --tries) {
    std::vector<size_t> chosen;
    const size_t count = std::min<size_t>(slots.size(), 2 + random() % 3);
    while (chosen.size() < count) {
      const size_t slot = random() % slots.size();
      if (std::find(chosen.begin(), chosen.end(), slot) == chosen.end()) chosen.push_back(slot);
    }
    std::vector<uint32_t> items;
    Cost before = 0;
    for (const size_t slot : chosen) {
      before += fixed + SlowestTime(slots[slot]);
      for (const FilledGroup& group : slots[slot]) {
        items.insert(items.end(), group.items.begin(), group.items.end());
      }
    }
    std::sort(items.begin(), items.end());
    const Cost mean = before / count;
    TurnOptions options = {.per_slot = fixed + mean / 64 * (random() % 16), .tries = 10};
    if (random() % 2 == 0) options.most = mean + mean / 32 * (random() % 24);
    std::vector<FilledSlot> filled = FillInTurn(all, items, options, allowance);
    if (filled.empty()) continue;
    Cost after = 0;
    for (const FilledSlot& slot : filled) after += fixed + SlowestTime(slot);
    if (after > before + before / 50) continue;
    after = EvenOutGroups(all, 20000, allowance, filled);
    const uint64_t number = slots.size() - count + filled.size();
    if (after >= before || all.problem().slots.RoundUp(number) != number) continue;
    std::sort(chosen.begin(), chosen.end());
    for (size_t i = chosen.size(); i-- > 0;) {
      slots.erase(slots.begin() + static_cast<ptrdiff_t>(chosen[i]));
    }
    for (FilledSlot& slot : filled) slots.push_back(std::move(slot));
  }
}

}  // namespace batchplan
