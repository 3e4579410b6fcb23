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

// The greedy work, in ticks, that no allowance pays for. Only what is above it is taken off.
inline constexpr uint64_t kGreedyOnTop = 400'000'000;

// What the searches of a request may spend, in ticks: the allowance of its effort, less the greedy
// work above kGreedyOnTop.
constexpr uint64_t AllowanceOf(Effort effort, uint64_t greedy) {
  const uint64_t all = AllowanceOf(effort);
  return all - std::min(all, greedy - std::min(greedy, kGreedyOnTop));
}

// The next lower effort, of one that is not the lowest.
constexpr Effort LessThan(Effort effort) {
  return effort == Effort::kThorough ? Effort::kDefault : Effort::kFast;
}

// Plans every sequence and ignores options.selection. MakePlan has checked the manifest and the
// options, whose limits are `limits`. The fingerprint and the metrics of MeasureTaken are left out.
//
// With max_delay the sequences are planned twice, each time with up to two thirds of what is left
// of `allowance`; once, if the greedy work of one plan is more than kGreedyOnTop.
//
// InvalidArgument if the request can't be met, naming field, value and limit; Cancelled if a stop
// was requested.
absl::StatusOr<Plan> PlanAtEffort(const Manifest& manifest, const PlanOptions& options,
                                  const PassLimits& limits, const Allowance& allowance);

// Like PlanAtEffort. On pipelines, with groups that differ in size and at kThorough, more effort is
// also never slower than less: the plan of the next lower effort is made too. It is the answer if
// its leading pass is faster, or if that is equally fast and all passes together are faster. With
// max_delay, all passes together decide. The plan of the lower effort spends up to half of
// `allowance`. Requests with many sequences, much greedy work or many micro-batches on pipelines
// are planned with their own effort alone.
absl::StatusOr<Plan> PlanWhole(const Manifest& manifest, const PlanOptions& options,
                               const PassLimits& limits, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_
