#include "server/planner/request/decision.h"

#include <algorithm>
#include <limits>

namespace batchplan {
namespace {

constexpr uint32_t kNothingKept = std::numeric_limits<uint32_t>::max();

// Writes the time of a number of slots. It replaces an earlier time if that is longer, or if
// `replaces` is set. Beyond kMostTriedSlots the entry with the longest time is dropped, but never
// the fewest slots or `kept`.
void PutSlots(uint64_t number, double step_time, uint32_t kept, bool replaces, TriedSlots& tried) {
  const auto slots = static_cast<uint32_t>(std::min<uint64_t>(number, kNothingKept - 1));
  const auto at = std::ranges::lower_bound(tried, slots, {}, &SlotsTried::slots);
  if (at != tried.end() && at->slots == slots) {
    at->step_time = replaces ? step_time : std::min(at->step_time, step_time);
    return;
  }
  tried.insert(at, {.slots = slots, .step_time = step_time});
  if (tried.size() <= kMostTriedSlots) return;
  auto longest = tried.end();
  for (auto entry = tried.begin() + 1; entry != tried.end(); ++entry) {
    if (entry->slots == kept) continue;
    if (longest == tried.end() || entry->step_time >= longest->step_time) longest = entry;
  }
  tried.erase(longest);
}

}  // namespace

void NoteSlots(uint64_t slots, double step_time, TriedSlots& tried) {
  PutSlots(slots, step_time, kNothingKept, /*replaces=*/false, tried);
}

void NoteSlots(std::span<const SlotsTried> others, TriedSlots& tried) {
  for (const SlotsTried& other : others) NoteSlots(other.slots, other.step_time, tried);
}

void SettleSlots(uint32_t slots, double step_time, TriedSlots& tried) {
  PutSlots(slots, step_time, slots, /*replaces=*/true, tried);
}

void NoteOtherSlots(std::span<const SlotsTried> others, uint32_t slots, TriedSlots& tried) {
  for (const SlotsTried& other : others) {
    if (other.slots == slots) continue;
    PutSlots(other.slots, other.step_time, slots, /*replaces=*/false, tried);
  }
}

}  // namespace batchplan
