// Checks how a pass says that its micro-batches came about.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_DECISIONS_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_DECISIONS_H_

#include <span>

#include "absl/status/status.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// Internal unless each mini-batch, of the first 1,024, has a decision that names a method and 1 to
// 16 numbers of slots: ascending, allowed, none below the fewest, and among them the plan's own
// number with the mini-batch's time. `step_times` has one entry a mini-batch. The fewest add up to
// the bound of the metrics. A plan without decisions is from a server that makes none, and valid.
absl::Status CheckDecisions(const PassUnderCheck& pass, std::span<const double> step_times);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_DECISIONS_H_
