// All of a manifest, planned: the stages from alignment on.

#ifndef BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_
#define BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "server/planner/plan.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/request/pass_limits.h"

namespace batchplan {

// The greedy work of any plan, in ticks: for each sequence in the first pass, and for each in the
// passes that follow it.
constexpr uint64_t GreedyTicks(uint64_t sequences, uint64_t passes) {
  constexpr uint64_t kTicksASequence = 250;
  constexpr uint64_t kTicksToFollow = 800;
  return sequences * (kTicksASequence + kTicksToFollow * (passes - 1));
}

// Of that, what comes on top of an allowance.
inline constexpr uint64_t kGreedyOnTop = 400'000'000;

// What searches may spend, in ticks: less, the more greedy work is not on top.
constexpr uint64_t AllowanceOf(Effort effort, uint64_t greedy) {
  const uint64_t all = AllowanceOf(effort);
  return all - std::min(all, greedy - std::min(greedy, kGreedyOnTop));
}

// The next lower effort, of one that is not the lowest.
constexpr Effort LessThan(Effort effort) {
  return effort == Effort::kThorough ? Effort::kDefault : Effort::kFast;
}

// A plan of every sequence, without its fingerprint and what is measured of whole plans; selection
// is not looked at. Of a manifest and options that MakePlan has checked, with their limits.
//
// With max_delay it is planned twice, each time with up to two thirds of what is left of
// `allowance`, unless the greedy work of one plan is more than kGreedyOnTop.
//
// InvalidArgument if the request can't be met, naming field, value and limit; Cancelled if a stop
// was requested.
absl::StatusOr<Plan> PlanAtEffort(const Manifest& manifest, const PlanOptions& options,
                                  const PassLimits& limits, const Allowance& allowance);

// The same, and on pipelines, with groups that differ in size and at kThorough never slower than
// less effort is: the plan of the next lower effort is the answer where its leading pass takes
// less, or as much and all passes less. Where mini-batches exchange sequences, where all passes
// take less. Its work comes out of `allowance` too, up to half of it. A request whose greedy work,
// or whose micro-batches on pipelines, are many is planned with its own effort alone.
absl::StatusOr<Plan> PlanWhole(const Manifest& manifest, const PlanOptions& options,
                               const PassLimits& limits, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_
