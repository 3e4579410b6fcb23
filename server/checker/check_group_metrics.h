// The metrics of a pass with dynamic_context are those of the plan it stands in.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_GROUP_METRICS_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_GROUP_METRICS_H_

#include <vector>

#include "absl/status/status.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// As CheckMetrics, where slots divide a pool. Call it once the rest of the pass is known to be
// right.
absl::Status CheckGroupMetrics(const PassUnderCheck& pass,
                               const std::vector<Microbatch>& microbatches);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_GROUP_METRICS_H_
