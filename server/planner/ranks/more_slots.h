// Which numbers of slots beyond the fewest are tried.

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

// One more slot is worth it if it shortens the step by 1 / kWorthASlot.
inline constexpr uint64_t kWorthASlot = 1000;

// How many slots beyond the fewest are tried in the packed layout.
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

// How many slots beyond the fewest are tried in the padded layout.
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

// Starts from `best`, which has `slots` slots. Solves for the next number that `counts` allows, up
// to `most` and at most `tries` times, as long as each makes the step shorter by a thousandth.
// Returns the last solution that did, or `best`. A Solution has a step_time, fixed costs included;
// solve(slots) returns one, or nothing.
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

// Numbers of slots to try on pipelines, whose stages are busier with more slots: allowed ones from
// `fewest` to `most`, each about an eighth above the last. They end at several times the fewest, or
// at several fillings of the pipeline.
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

// No further numbers are tried once a step takes this many times as long as the best.
inline constexpr double kFarFromBest = 1.15;

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_MORE_SLOTS_H_
