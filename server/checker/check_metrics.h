// The metrics of a pass are those of the plan it stands in.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_METRICS_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_METRICS_H_

#include <vector>

#include "absl/status/status.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// Counts and tokens are recomputed exactly, ratios within 1e-6, times within 1e-6 of their value.
// Lower bounds must not exceed what they bound; no more is checked of them. Then the decisions
// (check_decisions.h), which have such times too. Call it once the rest of the pass, and the ranks
// of items, are known to be right.
absl::Status CheckMetrics(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_METRICS_H_
