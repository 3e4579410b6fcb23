// What a placement takes, by the cost model.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_STEP_TIME_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_STEP_TIME_H_

#include "server/planner/cost.h"
#include "server/planner/pass_instance.h"
#include "server/planner/placement.h"

namespace batchplan {

// The predicted step time of one mini-batch, rows padded as the pass asks and the slots of each
// rank by descending cost: the sum over slots of the costliest rank's micro-batch, or the costliest
// rank's sum.
Cost StepTime(const PassInstance& pass, const Placement& placement);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_STEP_TIME_H_
