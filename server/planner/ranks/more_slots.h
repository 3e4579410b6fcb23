// Numbers of slots beyond the fewest: how many are tried, and when to stop.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_MORE_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_MORE_SLOTS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "server/planner/pass/pass.h"
#include "server/planner/request/allowance.h"

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

// On pipelines, whose stages more slots fill better: the numbers that `counts` allows from `fewest`
// to `most`, each about an eighth above the last; up to several times the fewest, or several
// fillings of the pipeline.
inline std::vector<uint64_t> SlotsOnPipelines(const CountRule& counts, const Pipeline& pipeline,
                                              uint64_t fewest, uint64_t most) {
  constexpr uint64_t kMostTimesFewest = 5;
  constexpr uint64_t kMostFillings = 4;
  fewest = counts.RoundUp(fewest);
  most = std::min(most, std::max(kMostTimesFewest * fewest, kMostFillings * pipeline.stages));
  std::vector<uint64_t> numbers;
  for (uint64_t slots = fewest; slots <= most;) {
    numbers.push_back(slots);
    slots = counts.RoundUp(slots + std::max<uint64_t>(1, slots * 3 / 25));
  }
  return numbers;
}

// No more are tried beyond one that takes so much longer than the best.
inline constexpr double kFarFromBest = 1.15;

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_MORE_SLOTS_H_
