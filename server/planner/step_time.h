// What a mini-batch is predicted to take on the ranks of a placement.

#ifndef BATCHPLAN_SERVER_PLANNER_STEP_TIME_H_
#define BATCHPLAN_SERVER_PLANNER_STEP_TIME_H_

#include <cstdint>

#include "server/planner/allowance.h"
#include "server/planner/pass.h"
#include "server/planner/placement.h"

namespace batchplan {

// What the pass's clock (step_clock.h) says of one mini-batch, rows padded and the slots of each
// rank ordered as the pass asks. Where it leaves them as they are assigned and there is no
// pipeline, ordered by PutCostliestRowsFirst (order.h); where it has their order looked for on a
// pipeline, in the one that is found.
Cost StepTime(const Pass& pass, const Placement& placement, const Allowance& allowance);

// Whether the allowance affords the simulations of StepTime, of so many slots; true without a
// pipeline.
bool AffordsStepTime(const Pass& pass, uint64_t slots, const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_STEP_TIME_H_
