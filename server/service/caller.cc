#include "server/service/caller.h"

namespace batchplan {

absl::Status Caller::StillWaiting() const {
  // The deadline first: gRPC cancels a call whose deadline has passed.
  if (std::chrono::system_clock::now() >= deadline) {
    return absl::DeadlineExceededError("the call's deadline passed before it was answered");
  }
  if (stop.stop_requested()) return absl::CancelledError("the call was cancelled");
  return absl::OkStatus();
}

}  // namespace batchplan
