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

// The next lower effort. REQUIRES: not the lowest.
constexpr Effort LessThan(Effort effort) {
  return effort == Effort::kThorough ? Effort::kDefault : Effort::kFast;
}

// Plans every sequence and ignores options.selection. MakePlan has checked the manifest and the
// options, whose limits are `limits`. Leaves out the fingerprint and the metrics of MeasureTaken.
//
// With max_delay the sequences are planned twice, each time with up to two thirds of the rest of
// `allowance`; but once if the greedy work of one plan exceeds kGreedyOnTop.
//
// InvalidArgument if the request can't be met, naming field, value and limit; Cancelled if a stop
// was requested.
absl::StatusOr<Plan> PlanAtEffort(const Manifest& manifest, const PlanOptions& options,
                                  const PassLimits& limits, const Allowance& allowance);

// Like PlanAtEffort. PlanAtEffort, such that more effort is never slower. On pipelines, with groups
// that differ in size and at kThorough, it also makes the plan of the next lower effort, which
// spends up to half of `allowance`. That plan is the answer if its leading pass is faster, or if
// that is equally fast and all passes together are faster. With max_delay, all passes together
// decide. Requests with many sequences, much greedy work or many micro-batches on pipelines are
// planned with their own effort alone.
absl::StatusOr<Plan> PlanWhole(const Manifest& manifest, const PlanOptions& options,
                               const PassLimits& limits, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_
