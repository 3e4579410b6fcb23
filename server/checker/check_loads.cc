#include "server/checker/check_loads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/checker/request_loads.h"
#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

// Numbers the slots of a pass through its mini-batches. All ranks have equally many slots.
class Slots {
 public:
  explicit Slots(const PassUnderCheck& pass) {
    for (const uint32_t count : pass.plan.microbatches_per_rank) {
      firsts_.push_back(size_);
      size_ += count;
    }
  }

  size_t size() const { return size_; }
  size_t Of(const Microbatch& microbatch) const {
    return firsts_[microbatch.mini_batch] + microbatch.slot;
  }

 private:
  std::vector<size_t> firsts_;
  size_t size_ = 0;
};

std::string PlaceOf(const PassUnderCheck& pass, const Microbatch& microbatch) {
  return absl::StrCat("passes[", pass.number, "] slot ", microbatch.slot, " of mini-batch ",
                      microbatch.mini_batch);
}

// Whether a sequence is alone in its micro-batch because it exceeds `limit`.
bool RunsAlone(const PlacedPass& placed, const RequestLimit& limit, uint32_t sequence) {
  const auto& [pass, microbatches, placement] = placed;
  return microbatches[placement[sequence]].size() == 1 && IsListedAsAlone(pass.demands, sequence) &&
         pass.loads.Exceeds(limit, sequence);
}

absl::Status CheckLimit(const PlacedPass& placed, const RequestLimit& limit) {
  const auto& [pass, microbatches, placement] = placed;
  const RequestLoad& load = pass.loads.all()[limit.load];
  for (size_t m = 0; m < microbatches.size(); ++m) {
    const Microbatch& microbatch = microbatches[m];
    double sum = 0;
    for (size_t p = microbatch.begin; p < microbatch.end; ++p) {
      sum += load.values[pass.plan.sequence_index[p]];
    }
    if (!limit.IsExceededBy(sum)) continue;
    if (RunsAlone(placed, limit, pass.plan.sequence_index[microbatch.begin])) continue;
    return Violation("passes[", pass.number, "] micro-batch ", m, " has ", sum, " of load \"",
                     load.name, "\", above max_per_microbatch ", limit.most);
  }
  return absl::OkStatus();
}

// The items of a slot, in the order in which they are dealt.
using SlotItems = std::vector<const LoadItem*>;

std::vector<SlotItems> ItemsOfSlots(const PlacedPass& placed, const Slots& slots,
                                    const RequestLoad& load) {
  std::vector<SlotItems> items(slots.size());
  for (const LoadItem& item : load.items) {
    const uint32_t m = placed.placement[item.sequence];
    if (m != kNowhere) items[slots.Of(placed.microbatches[m])].push_back(&item);
  }
  for (SlotItems& own : items) {
    std::ranges::sort(own, [](const LoadItem* a, const LoadItem* b) {
      return a->value != b->value ? a->value > b->value : a->number < b->number;
    });
  }
  return items;
}

// Deals the items of a slot and compares their ranks with the stated ones. Then checks the sum of
// each rank against `limit`, if there is one.
absl::Status CheckDeal(const PlacedPass& placed, const RequestLoad& load, const SlotItems& items,
                       std::span<const uint32_t> stated, absl::string_view field,
                       const RequestLimit* limit) {
  const uint64_t ranks = placed.pass.demands.data_parallel;
  std::set<std::pair<double, uint32_t>> least;
  for (uint32_t rank = 0; rank < ranks; ++rank) least.emplace(0, rank);
  for (const LoadItem* const item : items) {
    auto taker = least.extract(least.begin());
    const uint32_t rank = taker.value().second;
    if (stated[item->number] != rank) {
      return Violation(field, "[", item->number, "] is ", stated[item->number], ", but of ",
                       PlaceOf(placed.pass, placed.microbatches[placed.placement[item->sequence]]),
                       " rank ", rank, " gets the item of ", item->value);
    }
    taker.value().first += item->value;
    least.insert(std::move(taker));
  }
  if (limit == nullptr) return absl::OkStatus();
  for (const auto& [sum, rank] : least) {
    if (!limit->IsExceededBy(sum)) continue;
    const uint32_t m = placed.placement[items.front()->sequence];
    return Violation(PlaceOf(placed.pass, placed.microbatches[m]), " has ", sum, " of load \"",
                     load.name, "\" on rank ", rank, ", above max_per_microbatch ", limit->most);
  }
  return absl::OkStatus();
}

absl::Status CheckDealtLoad(const PlacedPass& placed, const Slots& slots, size_t entry,
                            size_t number) {
  const auto& [pass, microbatches, placement] = placed;
  const RequestLoad& load = pass.loads.all()[number];
  const LoadRanks& stated = pass.plan.item_ranks[entry];
  if (stated.load != load.name) {
    return Violation(Field(pass, "item_ranks", entry), ".load is \"", stated.load, "\", but load ",
                     entry, " of those that are dealt is \"", load.name, "\"");
  }
  const std::string field = absl::StrCat(Field(pass, "item_ranks", entry), ".ranks");
  if (stated.ranks.size() != load.item_count) {
    return Violation(field, " has ", stated.ranks.size(), " entries, but load \"", load.name,
                     "\" has ", load.item_count, " items");
  }
  std::vector<bool> planned(load.item_count, false);
  for (const LoadItem& item : load.items)
    planned[item.number] = placement[item.sequence] != kNowhere;
  for (size_t i = 0; i < planned.size(); ++i) {
    if (planned[i] || stated.ranks[i] == 0) continue;
    return Violation(field, "[", i, "] is ", stated.ranks[i],
                     ", but the sequence of the item is not planned");
  }
  const auto limits = pass.loads.LimitsOf(pass.number);
  const auto limit = std::ranges::find(limits, number, &RequestLimit::load);
  for (const SlotItems& items : ItemsOfSlots(placed, slots, load)) {
    absl::Status status = CheckDeal(placed, load, items, stated.ranks, field,
                                    limit == limits.end() ? nullptr : &*limit);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// What the micro-batches of a slot have.
struct SlotKinds {
  bool empty_microbatch = false;
  bool text_alone = false;  // some micro-batch has only sequences of kind 0
  bool other = false;       // some micro-batch has a sequence of another kind
  std::set<uint32_t> kinds = {};
};

absl::Status CheckKinds(const PlacedPass& placed, const Slots& slots) {
  const auto& [pass, microbatches, placement] = placed;
  const KindsPerSlot asked = pass.options.kinds_per_slot;
  const std::span<const uint32_t> kinds = pass.manifest.kinds;
  if (asked == KindsPerSlot::kAny || kinds.empty()) return absl::OkStatus();
  std::vector<SlotKinds> seen(slots.size());
  for (const Microbatch& microbatch : microbatches) {
    SlotKinds& slot = seen[slots.Of(microbatch)];
    bool other = false;
    for (size_t p = microbatch.begin; p < microbatch.end; ++p) {
      const uint32_t kind = kinds[pass.plan.sequence_index[p]];
      slot.kinds.insert(kind);
      other = other || kind != 0;
    }
    slot.other = slot.other || other;
    slot.empty_microbatch = slot.empty_microbatch || microbatch.empty();
    slot.text_alone = slot.text_alone || (!microbatch.empty() && !other);
  }
  for (const Microbatch& microbatch : microbatches) {
    const SlotKinds& slot = seen[slots.Of(microbatch)];
    if (asked == KindsPerSlot::kAlike && slot.kinds.size() > 1) {
      return Violation(PlaceOf(pass, microbatch), " has sequences of kinds ", *slot.kinds.begin(),
                       " and ", *slot.kinds.rbegin(), ", but all must be of one");
    }
    if (slot.other && slot.empty_microbatch) {
      return Violation(PlaceOf(pass, microbatch), " has sequences of kind ", *slot.kinds.rbegin(),
                       " and an empty micro-batch");
    }
    if (asked == KindsPerSlot::kTogether && slot.other && slot.text_alone) {
      return Violation(PlaceOf(pass, microbatch), " has sequences of kind ", *slot.kinds.rbegin(),
                       ", but a micro-batch of kind 0 alone");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLoads(const PlacedPass& placed) {
  const PassUnderCheck& pass = placed.pass;
  if (pass.plan.item_ranks.size() != pass.loads.dealt().size()) {
    return Violation(Field(pass, "item_ranks"), " has ", pass.plan.item_ranks.size(),
                     " entries, but ", pass.loads.dealt().size(), " loads are dealt");
  }
  // Requests with groups that differ in size have neither limits nor kinds.
  if (!pass.pass_demands.groups.empty()) return absl::OkStatus();
  const Slots slots(pass);
  for (const RequestLimit& limit : pass.loads.LimitsOf(pass.number)) {
    if (pass.loads.all()[limit.load].dealt) continue;
    if (absl::Status status = CheckLimit(placed, limit); !status.ok()) return status;
  }
  for (size_t entry = 0; entry < pass.loads.dealt().size(); ++entry) {
    absl::Status status = CheckDealtLoad(placed, slots, entry, pass.loads.dealt()[entry]);
    if (!status.ok()) return status;
  }
  return CheckKinds(placed, slots);
}

}  // namespace batchplan::checker
