// All of a manifest, planned: the stages from alignment on.

#ifndef BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_
#define BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_

#include "absl/status/statusor.h"
#include "server/planner/allowance.h"
#include "server/planner/manifest.h"
#include "server/planner/options.h"
#include "server/planner/pass_limits.h"
#include "server/planner/plan.h"

namespace batchplan {

// A plan of every sequence, without its fingerprint and what is measured of whole plans; selection
// is not looked at. Of a manifest and options that MakePlan has checked, with their limits.
//
// With max_delay it is planned twice, each time with as much as is left of `allowance`.
//
// InvalidArgument if the request can't be met, naming field, value and limit; Cancelled if a stop
// was requested.
absl::StatusOr<Plan> PlanWhole(const Manifest& manifest, const PlanOptions& options,
                               const PassLimits& limits, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_
