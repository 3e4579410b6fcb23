// Numbers of slots beyond the fewest: how many are tried, and when to stop.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_MORE_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_MORE_SLOTS_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "server/planner/allowance.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// The part of a step time that is worth a slot more.
inline constexpr uint64_t kWorthASlot = 1000;

// Slots that are tried beyond the fewest in the packed layout.
constexpr int MorePackedSlots(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return 0;
    case Effort::kThorough:
      return 4;
    default:
      return 1;
  }
}

// And in the padded layout.
constexpr int MorePaddedSlots(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return 0;
    case Effort::kThorough:
      return 16;
    default:
      return 4;
  }
}

// Solves for the next number of slots that `counts` allows, up to `most` and `tries` times, as long
// as each makes the step shorter by a thousandth; returns the last that did, or `best`, which has
// `slots`. A Solution has a step_time, fixed costs included; solve(slots) returns one, or nothing.
template <typename Solution, typename Solve>
Solution TryMoreSlots(const CountRule& counts, uint64_t slots, uint64_t most, int tries,
                      Solution best, Solve solve) {
  for (; tries > 0; --tries) {
    slots = counts.RoundUp(slots + 1);
    if (slots > most) break;
    std::optional<Solution> found = solve(slots);
    if (!found || found->step_time >= best.step_time - best.step_time / kWorthASlot) break;
    best = *std::move(found);
  }
  return best;
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_MORE_SLOTS_H_
