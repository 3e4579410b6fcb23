// What a rank's pipeline takes, event by event: the checker's own simulation.

#ifndef BATCHPLAN_SERVER_CHECKER_PIPELINE_EVENTS_H_
#define BATCHPLAN_SERVER_CHECKER_PIPELINE_EVENTS_H_

#include <span>

#include "server/planner/request/options.h"

namespace batchplan::checker {

// From the first event to the last of a training step's micro-batches, or of their forwards alone,
// that cost so much each and run in this order. Infinity if stages wait for each other for ever.
double PipelineTime(const Topology& topology, const PipelineOptions& pipeline, bool forward_only,
                    std::span<const double> costs);

// The part of the model, from 0 to 1, that the stage with most of it has.
double LargestStage(const Topology& topology, const PipelineOptions& pipeline);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_PIPELINE_EVENTS_H_
