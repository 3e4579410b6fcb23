// The errors that leave the server.
//
// A status travels in HTTP/2 trailers, which have a size limit, and its message may quote what a
// client sent. So: bounded, printable, and never an exception.

#ifndef BATCHPLAN_SERVER_SERVICE_ADMISSION_RPC_STATUS_H_
#define BATCHPLAN_SERVER_SERVICE_ADMISSION_RPC_STATUS_H_

#include <cstddef>
#include <exception>
#include <new>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace batchplan {

// Far below gRPC's default limit of 8 KiB for all of a call's metadata.
inline constexpr size_t kMaxStatusMessageBytes = 1024;

// `status` with a message that can be sent: at most kMaxStatusMessageBytes of UTF-8 without control
// characters. Bytes that are neither become '?'; a longer message is cut between characters and
// ends in "...".
absl::Status CleanStatus(const absl::Status& status);

// When the caller should try again. Sent beside the status as gRPC's grpc-retry-pushback-ms, which
// clients with a retry policy obey. A negative duration means never: another attempt would fail in
// the same way. None if nothing was set.
void SetRetryAfter(absl::Duration delay, absl::Status* status);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// Calls `work`, which returns a status, and turns exceptions into one: std::bad_alloc into
// ResourceExhausted, all others into Internal.
template <typename Work>
absl::Status CatchExceptions(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the server ran out of memory for this request");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("unexpected exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("unexpected exception");
  }
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_RPC_STATUS_H_
