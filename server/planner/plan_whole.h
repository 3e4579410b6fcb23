// All of a manifest, planned: the stages from alignment on.

#ifndef BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_
#define BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_

#include <stop_token>

#include "absl/status/statusor.h"
#include "server/planner/manifest.h"
#include "server/planner/options.h"
#include "server/planner/pass_limits.h"
#include "server/planner/plan.h"

namespace batchplan {

// A plan of every sequence, without its fingerprint and what is measured of whole plans; selection
// is not looked at. Of a manifest and options that MakePlan has checked, with their limits.
//
// InvalidArgument if the request can't be met, naming field, value and limit; Cancelled if `stop`
// was requested.
absl::StatusOr<Plan> PlanWhole(const Manifest& manifest, const PlanOptions& options,
                               const PassLimits& limits, const std::stop_token& stop);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLAN_WHOLE_H_
