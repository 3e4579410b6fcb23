// What micro-batches take on pipelines.

#ifndef BATCHPLAN_SERVER_PLANNER_TIME_PIPELINE_TIME_H_
#define BATCHPLAN_SERVER_PLANNER_TIME_PIPELINE_TIME_H_

#include <cstddef>
#include <span>

#include "server/planner/request/allowance.h"
#include "server/planner/request/options.h"
#include "server/planner/time/schedule.h"

namespace batchplan {

// What a mini-batch takes on pipelines.
struct PipelineTime {
  double makespan = 0;
  // Of that, what the stage with most work is busy.
  double work = 0;
};

// Of micro-batches that cost so much, slot s of rank r as number r * slots + s, which run in the
// order of their slots: that of the slowest rank, or in lockstep of the slots' maxima. Spends its
// simulations. Any time once a stop is requested.
PipelineTime PipelineTimeOf(const Pipeline& pipeline, Synchronization synchronization,
                            std::span<const double> costs, size_t ranks,
                            const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TIME_PIPELINE_TIME_H_
