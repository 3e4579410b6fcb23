// How a long computation learns that nobody waits for it any more.

#ifndef BATCHPLAN_SERVER_PLANNER_CANCELLATION_H_
#define BATCHPLAN_SERVER_PLANNER_CANCELLATION_H_

#include <stop_token>

#include "absl/status/status.h"

namespace batchplan {

// Cancelled if `stop` is requested.
inline absl::Status CheckStop(const std::stop_token& stop) {
  return stop.stop_requested() ? absl::CancelledError("planning was cancelled") : absl::OkStatus();
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CANCELLATION_H_
