// How long micro-batches run on pipelines.

#ifndef BATCHPLAN_SERVER_PLANNER_TIME_PIPELINE_TIME_H_
#define BATCHPLAN_SERVER_PLANNER_TIME_PIPELINE_TIME_H_

#include <cstddef>
#include <span>

#include "server/planner/request/allowance.h"
#include "server/planner/request/options.h"
#include "server/planner/time/schedule.h"

namespace batchplan {

// How long a mini-batch runs on pipelines.
struct PipelineTime {
  double makespan = 0;
  // The part of it in which the stage with most work is busy.
  double work = 0;
};

// The time of the slowest rank, or in lockstep of the slots' maxima. Number r * slots + s of
// `costs` is slot s of rank r; slots run in their order. Spends its simulations. Any value once a
// stop is requested.
PipelineTime PipelineTimeOf(const Pipeline& pipeline, Synchronization synchronization,
                            std::span<const double> costs, size_t ranks,
                            const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_TIME_PIPELINE_TIME_H_
