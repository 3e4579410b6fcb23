// How long the caller of an RPC waits for its answer.

#ifndef BATCHPLAN_SERVER_SERVICE_CALLER_H_
#define BATCHPLAN_SERVER_SERVICE_CALLER_H_

#include <chrono>
#include <stop_token>

#include "absl/status/status.h"

namespace batchplan {

struct Caller {
  std::chrono::system_clock::time_point deadline = std::chrono::system_clock::time_point::max();
  // Stop is requested when the call is cancelled.
  std::stop_token stop;

  // OK while the caller waits; DeadlineExceeded or Cancelled once it doesn't.
  absl::Status StillWaiting() const;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_CALLER_H_
