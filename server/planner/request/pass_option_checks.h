// What no manifest could make right in the options of the passes.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_PASS_OPTION_CHECKS_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_PASS_OPTION_CHECKS_H_

#include "absl/status/status.h"
#include "server/planner/request/options.h"

namespace batchplan {

// InvalidArgument, naming field and value, if there are no passes or too many, if one of them asks
// for what no plan can have, or if what they ask for does not go together with
// mini_batches.groups or with sequences that run alone.
absl::Status CheckPasses(const PlanOptions& options);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_PASS_OPTION_CHECKS_H_
