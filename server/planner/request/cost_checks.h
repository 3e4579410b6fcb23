// Checks of the pipeline and the cost model that need no manifest.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_COST_CHECKS_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_COST_CHECKS_H_

#include "absl/status/status.h"
#include "server/planner/request/options.h"

namespace batchplan {

// InvalidArgument, naming field and value, if the options are wrong for a pipeline of this
// topology, whose sizes are valid. Checks nothing without a pipeline.
absl::Status CheckPipeline(const Topology& topology, const PipelineOptions& pipeline);

// InvalidArgument, naming field and value, if a coefficient is out of range, if the sizes of
// exchange do not ascend, or if nothing costs anything.
absl::Status CheckCostModel(const CostModel& model);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_COST_CHECKS_H_
