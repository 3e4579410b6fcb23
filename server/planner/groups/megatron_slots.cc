#include "server/planner/groups/megatron_slots.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "server/planner/groups/open_slot.h"
#include "server/planner/packing/index_set.h"

namespace batchplan {
namespace {

class Scheduler {
 public:
  Scheduler(const ContextProblem& problem, const Allowance& allowance, uint64_t most_visits)
      : problem_(problem),
        sizes_(problem),
        by_length_(problem),
        visits_(allowance, most_visits),
        waiting_(problem.items()),
        half_(problem.items()) {
    for (size_t position = 0; position < problem.items(); ++position) waiting_.Insert(position);
  }

  std::optional<ContextSlots> Run() {
    std::vector<OpenSlot> slots;
    while (waiting_.AtLeast(0) != IndexSet::kNone) {
      slots.push_back(Fill(waiting_));
      if (!UseFreeRanks(slots, waiting_) || !visits_.Spend(1)) return std::nullopt;
      SortGroups(slots.back());
    }
    const uint64_t wanted = problem_.slots.RoundUp(slots.size());
    CutSlots(wanted, slots);
    while (slots.size() < wanted) {
      if (!DivideASlot(slots) || !visits_.Spend(1)) return std::nullopt;
    }
    ContextSlots result;
    result.reserve(slots.size());
    for (OpenSlot& slot : slots) {
      SortGroups(slot);
      std::vector<ContextGroup>& groups = result.emplace_back();
      groups.reserve(slot.groups.size());
      for (OpenGroup& group : slot.groups) groups.push_back({group.size, std::move(group.items)});
    }
    return result;
  }

 private:
  OpenSlot Fill(IndexSet& waiting) {
    return FillOpenSlot(problem_, sizes_, by_length_, waiting, visits_);
  }

  static void SortGroups(OpenSlot& slot) {
    std::stable_sort(slot.groups.begin(), slot.groups.end(),
                     [](const OpenGroup& a, const OpenGroup& b) { return a.size > b.size; });
  }

  // Gives the free ranks of the last slot work.
  bool UseFreeRanks(std::vector<OpenSlot>& slots, IndexSet& waiting) {
    OpenSlot& slot = slots.back();
    for (Enlarge(slot); slot.free > 0; Enlarge(slot)) {
      if (!visits_.Spend(1)) return false;
      if (TakeWholePool(slot, waiting) || TakeWaiting(waiting, slot) || TakeFromGroups(slots)) {
        continue;
      }
      if (!problem_.allow_empty || ++empty_ > kMaxEmptyMicrobatches) return false;
      slot.groups.push_back({.size = LargestWithin(slot.free)});
      slot.free -= sizes_.ranks(slot.groups.back().size);
    }
    return true;
  }

  // The next larger size, if the group's items fit it; otherwise its own.
  uint32_t Enlarged(const OpenGroup& group) const {
    const uint32_t next = group.size + 1;
    return next < sizes_.count() && sizes_.FitsIn(group, next) ? next : group.size;
  }

  // Gives free ranks to the first group of the smallest size, which gets the next larger size,
  // again and again.
  void Enlarge(OpenSlot& slot) {
    while (slot.free > 0 && visits_.Spend(1 + slot.groups.size())) {
      const OpenGroup* smallest = nullptr;
      for (const OpenGroup& group : slot.groups) {
        if (smallest != nullptr && group.size >= smallest->size) continue;
        if (Enlarged(group) != group.size) smallest = &group;
      }
      if (smallest == nullptr) return;
      const uint32_t size = smallest->size;
      const uint32_t more = sizes_.ranks(size + 1) - sizes_.ranks(size);
      if (more > slot.free) return;
      for (OpenGroup& group : slot.groups) {
        if (group.size != size || more > slot.free || Enlarged(group) == size) continue;
        group = sizes_.GroupOf(size + 1, group.items);
        slot.free -= more;
      }
    }
  }

  uint32_t LargestWithin(uint32_t free) const {
    uint32_t size = 0;
    while (size + 1 < sizes_.count() && sizes_.ranks(size + 1) <= free) ++size;
    return size;
  }

  // Puts the longest sequences, those of the slot and those that wait, into one group of the whole
  // pool, as many as it holds; the others wait. False if there is no such size, or if alignment
  // makes each sequence of the slot too long for it.
  bool TakeWholePool(OpenSlot& slot, IndexSet& waiting) {
    const auto whole = static_cast<uint32_t>(sizes_.count() - 1);
    if (sizes_.ranks(whole) != problem_.pool) return false;
    bool holds_one = false;
    for (const OpenGroup& group : slot.groups) {
      for (const uint32_t item : group.items) holds_one = holds_one || sizes_.Holds(whole, item);
    }
    if (!holds_one) return false;
    for (const OpenGroup& group : slot.groups) {
      for (const uint32_t item : group.items) waiting.Insert(by_length_.PositionOf(item));
    }
    slot = {.groups = {{.size = whole}}, .free = 0};
    OpenGroup& group = slot.groups.front();
    size_t position = waiting.AtLeast(0);
    while (position != IndexSet::kNone && visits_.Spend(1)) {
      size_t next = position + 1;
      if (sizes_.Holds(group, by_length_[position])) {
        sizes_.Put(by_length_[position], group);
        waiting.Erase(position);
      } else {
        next = by_length_.FirstWithPlace(next,
                                         [&](uint32_t item) { return sizes_.Holds(group, item); });
      }
      position = waiting.AtLeast(next);
    }
    return true;
  }

  // Puts the item into a new group on free ranks, of the least size that holds it.
  bool PutOnFreeRanks(uint32_t item, OpenSlot& slot) const {
    const std::optional<uint32_t> size = SizeOnFreeRanks(slot, item);
    if (!size) return false;
    slot.groups.push_back(sizes_.GroupOf(*size, {&item, 1}));
    slot.free -= sizes_.ranks(*size);
    return true;
  }
  std::optional<uint32_t> SizeOnFreeRanks(const OpenSlot& slot, uint32_t item) const {
    for (uint32_t size = 0; size < sizes_.count() && sizes_.ranks(size) <= slot.free; ++size) {
      if (sizes_.Holds(size, item)) return size;
    }
    return std::nullopt;
  }

  // Puts the longest waiting sequence that fits on the free ranks there.
  bool TakeWaiting(IndexSet& waiting, OpenSlot& slot) {
    const size_t from = by_length_.FirstWithPlace(
        0, [&](uint32_t item) { return SizeOnFreeRanks(slot, item).has_value(); });
    for (size_t position = waiting.AtLeast(from); position != IndexSet::kNone && visits_.Spend(1);
         position = waiting.AtLeast(position + 1)) {
      if (!PutOnFreeRanks(by_length_[position], slot)) continue;
      waiting.Erase(position);
      return true;
    }
    return false;
  }

  // Puts there the last, and so shortest, sequence of a group of several, from this slot or an
  // earlier one.
  bool TakeFromGroups(std::vector<OpenSlot>& slots) {
    for (size_t s = slots.size(); s-- > 0;) {
      for (size_t g = 0; g < slots[s].groups.size(); ++g) {
        if (!visits_.Spend(1)) return false;
        if (slots[s].groups[g].items.size() < 2) continue;
        if (!PutOnFreeRanks(slots[s].groups[g].items.back(), slots.back())) continue;
        OpenGroup& group = slots[s].groups[g];
        group.items.pop_back();
        group = sizes_.GroupOf(group.size, group.items);
        return true;
      }
    }
    return false;
  }

  // Cuts slots between groups, the last slot first, until their number is `wanted` or none can be
  // cut.
  void CutSlots(uint64_t wanted, std::vector<OpenSlot>& slots) {
    size_t s = slots.size();
    for (size_t uncut = 0; slots.size() < wanted && uncut < slots.size() && visits_.Spend(1);) {
      s = s == 0 ? slots.size() - 1 : s - 1;
      std::optional<std::pair<OpenSlot, OpenSlot>> parts = PartsOf(slots[s]);
      ++uncut;
      if (!parts) continue;
      uncut = 0;
      slots[s] = std::move(parts->second);
      slots.push_back(std::move(parts->first));
    }
  }

  // The first groups of a slot, on half of the ranks or more, and the others, each enlarged to the
  // whole pool; none if they can't be.
  std::optional<std::pair<OpenSlot, OpenSlot>> PartsOf(const OpenSlot& slot) {
    if (slot.groups.size() < 2) return std::nullopt;
    OpenSlot first = {.groups = {}, .free = problem_.pool};
    OpenSlot second = first;
    for (const OpenGroup& group : slot.groups) {
      if (group.items.empty()) return std::nullopt;
      OpenSlot& part = problem_.pool - first.free < problem_.pool / 2 ? first : second;
      part.groups.push_back(group);
      part.free -= sizes_.ranks(group.size);
    }
    Enlarge(first);
    Enlarge(second);
    if (first.free > 0 || second.free > 0) return std::nullopt;
    return std::pair(std::move(first), std::move(second));
  }

  // Divides a slot with several sequences in two, which get every other one of them.
  bool DivideASlot(std::vector<OpenSlot>& slots) {
    std::vector<std::pair<size_t, size_t>> by_items;
    for (size_t s = 0; s < slots.size(); ++s) {
      if (!visits_.Spend(1 + slots[s].groups.size())) return false;
      size_t items = 0;
      for (const OpenGroup& group : slots[s].groups) items += group.items.size();
      if (items > 1) by_items.push_back({items, s});
    }
    std::stable_sort(by_items.begin(), by_items.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [items, s] : by_items) {
      std::vector<uint32_t> all;
      for (const OpenGroup& group : slots[s].groups) {
        for (const uint32_t item : group.items) all.push_back(by_length_.PositionOf(item));
      }
      std::sort(all.begin(), all.end());
      std::optional<OpenSlot> halves[2];
      for (size_t half = 0; half < 2; ++half) {
        for (size_t i = half; i < all.size(); i += 2) half_.Insert(all[i]);
        std::vector<OpenSlot> alone = {Fill(half_)};
        const auto none_waits = [&] { return half_.AtLeast(0) == IndexSet::kNone; };
        if (none_waits() && UseFreeRanks(alone, half_) && none_waits()) halves[half] = alone[0];
        for (size_t i = half; i < all.size(); i += 2) half_.Erase(all[i]);
      }
      if (!halves[0] || !halves[1]) continue;
      slots[s] = *std::move(halves[0]);
      slots.insert(slots.begin() + static_cast<ptrdiff_t>(s) + 1, *std::move(halves[1]));
      return true;
    }
    if (!problem_.allow_empty) return false;
    std::vector<OpenSlot> empty = {{.groups = {}, .free = problem_.pool}};
    if (!UseFreeRanks(empty, half_)) return false;
    slots.push_back(std::move(empty[0]));
    return true;
  }

  const ContextProblem& problem_;
  const GroupSizes sizes_;
  const ByLength by_length_;
  Visits visits_;
  uint64_t empty_ = 0;  // groups
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
