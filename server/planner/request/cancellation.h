// How a long computation learns that nobody waits for it any more.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_CANCELLATION_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_CANCELLATION_H_

#include "absl/status/status.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Cancelled if a stop is requested.
inline absl::Status CheckStop(const Allowance& allowance) {
  return allowance.stop_requested() ? absl::CancelledError("planning was cancelled")
                                    : absl::OkStatus();
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_CANCELLATION_H_
