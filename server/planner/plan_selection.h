// A plan of a part of the waiting sequences.

#ifndef BATCHPLAN_SERVER_PLANNER_PLAN_SELECTION_H_
#define BATCHPLAN_SERVER_PLANNER_PLAN_SELECTION_H_

#include "absl/status/statusor.h"
#include "server/planner/plan.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/request/pass_limits.h"

namespace batchplan {

// PlanWhole of the sequences that options.selection takes; the others are `deferred`.
//
// Plans the choice of first in, first out and the most promising other choices that the selection
// allows. The answer is the plan with the least predicted over ideal step time, of equal ones the
// first. The choices of lower efforts are planned too (efforts.h), so that more effort is never
// slower. If no choice has a plan, those of higher efforts are planned, so that the effort does not
// decide whether there is a plan. `request` has the stop, and records the work.
absl::StatusOr<Plan> PlanSelection(const Manifest& manifest, const PlanOptions& options,
                                   const PassLimits& limits, const Allowance& request);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLAN_SELECTION_H_
