// A plan of some of what waits.

#ifndef BATCHPLAN_SERVER_PLANNER_PLAN_SELECTION_H_
#define BATCHPLAN_SERVER_PLANNER_PLAN_SELECTION_H_

#include "absl/status/statusor.h"
#include "server/planner/plan.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/request/pass_limits.h"

namespace batchplan {

// As PlanWhole, of what options.selection takes, with what waits in `deferred`. First in, first out
// is planned, and what seems best of the choices that the selection allows; the plan with the least
// predicted over ideal step time is the answer, of equal ones the former. The choices of lower
// efforts are planned too, so that more effort is never slower; where none of them has a plan,
// those of higher ones, so that the effort does not decide whether there is one. Of many sequences
// those of its own effort alone. All of it is spent of `allowance`.
absl::StatusOr<Plan> PlanSelection(const Manifest& manifest, const PlanOptions& options,
                                   const PassLimits& limits, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLAN_SELECTION_H_
