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

// Of a mini-batch: the fewest slots and those with the least step times.
inline constexpr size_t kMostTriedSlots = 16;
// Of a pass, those of its first mini-batches.
inline constexpr size_t kMostDecisions = 1024;

// Names of methods, beside those of presets.
inline constexpr absl::string_view kBalancedMethod = "balanced";
inline constexpr absl::string_view kDealtMethod = "deal_bins";
inline constexpr absl::string_view kEvenMethod = "even";
inline constexpr absl::string_view kSearchedMethod = "every_division";
inline constexpr absl::string_view kJointMethod = "joint";
inline constexpr absl::string_view kFollowedMethod = "follow";
inline constexpr absl::string_view kMegatronMethod = "megatron_dynamic_cp";
// The size is appended.
inline constexpr absl::string_view kFixedSizeMethod = "context_parallel_";

// Notes a number of slots that was tried. Of two times of one number the shorter stays.
// O(kMostTriedSlots).
void NoteSlots(uint64_t slots, double step_time, TriedSlots& tried);
void NoteSlots(std::span<const SlotsTried> others, TriedSlots& tried);

// Gives the slots that the plan has the plan's own time, whatever was noted of them.
void SettleSlots(uint32_t slots, double step_time, TriedSlots& tried);

// Adds what another search over the same mini-batch tried, beside the `slots` that the plan has.
void NoteOtherSlots(std::span<const SlotsTried> others, uint32_t slots, TriedSlots& tried);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_DECISION_H_
