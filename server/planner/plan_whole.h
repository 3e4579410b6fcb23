// All of a manifest, planned: the stages from alignment on.

#ifndef BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_
#define BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/balance/lockstep_findings.h"
#include "server/planner/plan.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/request/pass_limits.h"

namespace batchplan {

// What is found of each mini-batch of the leading pass, in lockstep. Filled by the first plan.
using BatchFindings = std::vector<LockstepFindings>;

// Plans every sequence and ignores options.selection. MakePlan has checked the manifest and the
// options, whose limits are `limits`. Leaves out the fingerprint and the metrics of MeasureTaken.
//
// With max_delay the sequences are planned twice, each time with up to two thirds of the rest of
// `allowance`; but once if the greedy work of one plan exceeds kGreedyOnTop.
//
// `findings`, if any, are of plans that differ in nothing but the effort.
//
// InvalidArgument if the request can't be met, naming field, value and limit; Cancelled if a stop
// was requested.
absl::StatusOr<Plan> PlanAtEffort(const Manifest& manifest, const PlanOptions& options,
                                  const PassLimits& limits, const Allowance& allowance,
                                  BatchFindings* findings = nullptr);

// The best of PlanAtEffort at the effort of the options and at all lower ones (efforts.h), so that
// more effort is never slower: the plan with the fastest leading pass, of equal ones that with the
// least time of all passes, of equal ones that of the highest effort. With max_delay, all passes
// together decide. Methods that search nothing are asked once. Above 65,536 sequences, a plan that
// is about as good as its bound is the answer at once. `request` has the stop, and records the
// work.
absl::StatusOr<Plan> PlanWhole(const Manifest& manifest, const PlanOptions& options,
                               const PassLimits& limits, const Allowance& request);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_
