// Promise 1, first half: what the overlong policy touched is listed, all of it and nothing else.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_EXCLUSIONS_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_EXCLUSIONS_H_

#include "absl/status/status.h"
#include "server/checker/expectation.h"
#include "server/planner/plan.h"

namespace batchplan::checker {

// Internal unless plan.excluded is exactly the expected list: ascending, true lengths, reasons.
absl::Status CheckExclusions(const Expectation& expected, const Plan& plan);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_EXCLUSIONS_H_
