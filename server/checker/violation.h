// The one form of the checker's errors.

#ifndef BATCHPLAN_SERVER_CHECKER_VIOLATION_H_
#define BATCHPLAN_SERVER_CHECKER_VIOLATION_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace batchplan::checker {

// Internal: "plan check: " and the pieces, which name place, value and limit.
template <typename... Pieces>
absl::Status Violation(const Pieces&... pieces) {
  return absl::InternalError(absl::StrCat("plan check: ", pieces...));
}

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_VIOLATION_H_
