// Checks that the plan's cost model is the request's.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_COSTS_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_COSTS_H_

#include "absl/status/status.h"
#include "server/planner/request/options.h"

namespace batchplan::checker {

// Internal unless the plan states the request's coefficients, and these are finite, at least 0 and
// not all 0.
absl::Status CheckCostModel(const CostModel& requested, const CostModel& used);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_COSTS_H_
