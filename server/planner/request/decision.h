// How the micro-batches of one mini-batch came about: what won, and which numbers of slots were
// tried (MiniBatchDecision in proto/batchplan/v1/plan.proto).

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_DECISION_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_DECISION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace batchplan {

// A number of slots, and the predicted step time of the best micro-batches found with it, in units
// of the cost model.
struct SlotsTried {
  uint32_t slots = 0;
  double step_time = 0;

  friend bool operator==(const SlotsTried&, const SlotsTried&) = default;
};

// Ascending by slots; each number once.
using TriedSlots = std::vector<SlotsTried>;

struct MiniBatchDecision {
  std::string method;
  uint32_t fewest_slots = 0;
  TriedSlots tried;

  friend bool operator==(const MiniBatchDecision&, const MiniBatchDecision&) = default;
};

// The most TriedSlots of a mini-batch: the fewest slots are kept, and those with the least step
// times.
inline constexpr size_t kMostTriedSlots = 16;
// The most decisions of a pass: those of its first mini-batches are kept.
inline constexpr size_t kMostDecisions = 1024;

// Names of methods, beside those of presets.
inline constexpr absl::string_view kBalancedMethod = "balanced";
inline constexpr absl::string_view kDealtMethod = "deal_bins";
inline constexpr absl::string_view kEvenMethod = "even";
inline constexpr absl::string_view kSearchedMethod = "every_division";
inline constexpr absl::string_view kJointMethod = "joint";
inline constexpr absl::string_view kFollowedMethod = "follow";
inline constexpr absl::string_view kMegatronMethod = "megatron_dynamic_cp";
// Followed by the size.
inline constexpr absl::string_view kFixedSizeMethod = "context_parallel_";

// Notes a number of slots that was tried, and the shorter of its times. O(kMostTriedSlots).
void NoteSlots(uint64_t slots, double step_time, TriedSlots& tried);
void NoteSlots(std::span<const SlotsTried> others, TriedSlots& tried);

// Sets the time of the plan's own number of slots, whatever was noted for it.
void SettleSlots(uint32_t slots, double step_time, TriedSlots& tried);

// Adds the numbers that another search over the same mini-batch tried, except the plan's own
// `slots`.
void NoteOtherSlots(std::span<const SlotsTried> others, uint32_t slots, TriedSlots& tried);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_DECISION_H_
