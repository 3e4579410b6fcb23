// Checks of the passes' options that need no manifest.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_PASS_OPTION_CHECKS_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_PASS_OPTION_CHECKS_H_

#include "absl/status/status.h"
#include "server/planner/request/options.h"

namespace batchplan {

// InvalidArgument, naming field and value, if there are no passes or too many, if a pass asks for
// the impossible, or if its options exclude mini_batches.groups or sequences that run alone.
absl::Status CheckPasses(const PlanOptions& options);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_PASS_OPTION_CHECKS_H_
