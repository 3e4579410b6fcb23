#include "batchplan/worker_options.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/kernel_status.h"

namespace batchplan {

absl::Status WorkerOptions::Validate() const {
  if (static_cast<bool>(allocator.allocate) != static_cast<bool>(allocator.free)) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions.allocator has ", allocator.allocate ? "allocate" : "free",
                     ", but not ", allocator.allocate ? "free" : "allocate"));
  }
  if (backend == BATCHPLAN_BACKEND_CUDA && !allocator.allocate) {
    return absl::InvalidArgumentError(
        "WorkerOptions.allocator is not set, but the CUDA backend needs device memory from it");
  }
  if (sharding != BATCHPLAN_SHARDING_ZIGZAG && sharding != BATCHPLAN_SHARDING_CONTIGUOUS) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions.sharding is ", sharding, ", which names no sharding"));
  }
  return KernelStatus(batchplan_backend_status(backend),
                      absl::StrCat("WorkerOptions.backend is ", backend));
}

}  // namespace batchplan
