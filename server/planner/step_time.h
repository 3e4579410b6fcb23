// What a mini-batch is predicted to take on the ranks of a placement.

#ifndef BATCHPLAN_SERVER_PLANNER_STEP_TIME_H_
#define BATCHPLAN_SERVER_PLANNER_STEP_TIME_H_

#include <cstddef>
#include <span>

#include "server/planner/allowance.h"
#include "server/planner/pass_instance.h"
#include "server/planner/pipeline/schedule.h"
#include "server/planner/placement.h"

namespace batchplan {

// The predicted step time of one mini-batch, rows padded and the slots of each rank ordered as the
// pass asks. Where it leaves them as they are assigned and there is no pipeline, ordered by
// PutCostliestRowsFirst (order.h); where it has their order looked for on a pipeline, in the one
// that is found.
//
// Without a pipeline it is the sum over slots of the costliest rank's micro-batch, or the costliest
// rank's sum; with one, PipelineTimeOf.
Cost StepTime(const PassInstance& pass, const Placement& placement, const Allowance& allowance);

// Whether the allowance affords the simulations of StepTime, of so many slots; true without a
// pipeline.
bool AffordsStepTime(const PassInstance& pass, uint64_t slots, const Allowance& allowance);

// What a mini-batch takes on pipelines.
struct PipelineTime {
  double makespan = 0;
  // Of that, what the stage with most work is busy.
  double work = 0;
};

// Of micro-batches that cost so much, slot s of rank r as number r * slots + s, which run in the
// order of their slots: that of the slowest rank, or in lockstep of the slots' maxima.
// Any time once a stop is requested.
PipelineTime PipelineTimeOf(const Pipeline& pipeline, Synchronization synchronization,
                            std::span<const double> costs, size_t ranks,
                            const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_STEP_TIME_H_
