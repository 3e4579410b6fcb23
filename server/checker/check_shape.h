// Promise 3: the arrays are well-formed, and every rank has the same number of micro-batches.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_SHAPE_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_SHAPE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// The micro-batches of the pass, in the plan's order. Internal unless they cover
// plan.sequence_index from end to end, with plan.row_widths and plan.sequence_lengths of the right
// sizes, on which every later check builds; if a count breaks the minimum or the multiple asked
// for; or if a micro-batch is empty that may not be.
absl::StatusOr<std::vector<Microbatch>> CheckShape(const PassUnderCheck& pass);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_SHAPE_H_
