// Plans of an effort and of all lower ones, so that more effort is never worse.

#ifndef BATCHPLAN_SERVER_PLANNER_EFFORTS_H_
#define BATCHPLAN_SERVER_PLANNER_EFFORTS_H_

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/options.h"

namespace batchplan {

// The greedy work of any plan, in ticks: for each sequence in the first pass, and in the passes
// that follow it.
constexpr uint64_t GreedyTicks(uint64_t sequences, uint64_t passes) {
  constexpr uint64_t kTicksASequence = 250;
  constexpr uint64_t kTicksToFollow = 800;
  return sequences * (kTicksASequence + kTicksToFollow * (passes - 1));
}

// The greedy work, in ticks, that comes on top of the allowance. What exceeds it is deducted from
// the allowance.
inline constexpr uint64_t kGreedyOnTop = 400'000'000;

// What the searches of a request may spend, in ticks: the allowance of its effort, less the greedy
// work above kGreedyOnTop.
constexpr uint64_t AllowanceOf(Effort effort, uint64_t greedy) {
  const uint64_t all = AllowanceOf(effort);
  return all - std::min(all, greedy - std::min(greedy, kGreedyOnTop));
}

// Calls plan(effort, allowance) for efforts from `first` on, the lowest first, as long as it
// returns true. Its caller keeps the best of what it makes. `greedy` is the greedy work of a plan.
//
// An effort has the allowance that it would have if it were the last, so that a lower effort makes
// the plan here that it makes of a request of its own: what the efforts before it have left of its
// allowance, and at least half. Efforts above `asked` have the allowance of `asked`. `request`
// records the work of all.
inline void ForEachEffort(Effort first, Effort asked, uint64_t greedy, const Allowance& request,
                          absl::FunctionRef<bool(Effort, const Allowance&)> plan) {
  uint64_t spent = 0;
  for (const Effort effort : {Effort::kFast, Effort::kDefault, Effort::kThorough}) {
    if (effort < first) continue;
    const uint64_t all = AllowanceOf(std::min(effort, asked), greedy);
    const uint64_t given = std::max(all - std::min(all, spent), all / 2);
    const Allowance own(given, request.stop(), kReserve);
    const bool goes_on = plan(effort, own);
    request.SpendOnTop(own.used());
    if (!goes_on || request.stop_requested()) return;
    spent += given - own.left();
  }
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_EFFORTS_H_
