// What the kernels say, as absl::Status.

#ifndef BATCHPLAN_CLIENT_CPP_KERNEL_STATUS_H_
#define BATCHPLAN_CLIENT_CPP_KERNEL_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "batchplan/kernels/status.h"

namespace batchplan {

// "`what`: the sentence of `status`". A backend that was not built is Unimplemented, a device that
// is missing FailedPrecondition, a failure of CUDA Internal, all else InvalidArgument.
inline absl::Status KernelStatus(batchplan_status status, absl::string_view what) {
  const auto code = [status] {
    switch (status) {
      case BATCHPLAN_OK:
        return absl::StatusCode::kOk;
      case BATCHPLAN_ERROR_BACKEND_NOT_BUILT:
        return absl::StatusCode::kUnimplemented;
      case BATCHPLAN_ERROR_NO_DEVICE:
        return absl::StatusCode::kFailedPrecondition;
      case BATCHPLAN_ERROR_CUDA:
        return absl::StatusCode::kInternal;
      default:
        return absl::StatusCode::kInvalidArgument;
    }
  };
  if (status == BATCHPLAN_OK) return absl::OkStatus();
  return {code(), absl::StrCat(what, ": ", batchplan_status_string(status))};
}

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_KERNEL_STATUS_H_
