// Predicted step time from a plan's own arrays, under either synchronization: a plan is made and
// measured for one, and its user may ask what it would take under the other.

#ifndef BATCHPLAN_CLIENT_CLI_STEP_TIME_H_
#define BATCHPLAN_CLIENT_CLI_STEP_TIME_H_

#include <cstdint>
#include <vector>

#include "batchplan/v1/options.pb.h"
#include "batchplan/v1/plan.pb.h"
#include "client/cli/microbatches.h"
#include "server/planner/options.h"

namespace batchplan::cli {

// In the cost model's units, over all mini-batches.
struct StepTimes {
  // Ranks meet after every micro-batch: the sum over slots of the maximum over ranks.
  double lockstep = 0;
  // Ranks meet once a mini-batch: the maximum over ranks of the sum over slots.
  double accumulated = 0;
};

// `microbatches` are those of `plan`, as ListMicrobatches gives them. O(n).
StepTimes PredictStepTimes(const std::vector<Microbatch>& microbatches, const v1::PassPlan& plan,
                           Layout layout, uint32_t data_parallel, const v1::CostModel& cost_model);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_STEP_TIME_H_
