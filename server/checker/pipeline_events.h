// The time of a rank's pipeline, event by event: the checker's own simulation.

#ifndef BATCHPLAN_SERVER_CHECKER_PIPELINE_EVENTS_H_
#define BATCHPLAN_SERVER_CHECKER_PIPELINE_EVENTS_H_

#include <span>

#include "server/planner/request/options.h"

namespace batchplan::checker {

// The time from the first event to the last of a step's micro-batches, or of their forwards alone,
// with these costs and in this order. Infinity if stages wait for each other for ever.
double PipelineTime(const Topology& topology, const PipelineOptions& pipeline, bool forward_only,
                    std::span<const double> costs);

// The part of the model, from 0 to 1, in the largest stage.
double LargestStage(const Topology& topology, const PipelineOptions& pipeline);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_PIPELINE_EVENTS_H_
