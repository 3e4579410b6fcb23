// Promise 8: a row lays shared prefixes once.

#ifndef BATCHPLAN_SERVER_CHECKER_CHECK_SHARING_H_
#define BATCHPLAN_SERVER_CHECKER_CHECK_SHARING_H_

#include <vector>

#include "absl/status/status.h"
#include "server/checker/pass_under_check.h"

namespace batchplan::checker {

// Internal if the first sequence of a micro-batch has shared tokens; if another has more or fewer
// than it has in common with the one before it; if a sequence stands behind one that extends it; or
// if a row lays a token twice. The sequences and their lengths are known to be right.
absl::Status CheckSharing(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches);

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_CHECK_SHARING_H_
