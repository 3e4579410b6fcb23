// Promise 1, second half: every planned sequence is in exactly one place of the pass.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_SEQUENCES_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_SEQUENCES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// Where each sequence is; kNowhere for the dropped ones. Internal if a sequence is missing, there
// twice, out of range, there although dropped, or planned with another length than its own (or, if
// truncated, the limit).
absl::StatusOr<Placement> CheckSequences(const PassUnderCheck& pass,
                                         const std::vector<Microbatch>& microbatches);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_SEQUENCES_H_
