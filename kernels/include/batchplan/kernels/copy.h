// Bytes between host and backend in the order of a stream, for callers that otherwise need nothing
// of CUDA: a plan's arrays go up once, the error word comes down at the end of the step.
//
//   batchplan_copy(backend, device_lengths, lengths, 4 * n, stream);
//   ... batchplan_compute_layout and others ...
//   batchplan_copy(backend, &status, error_word, sizeof(status), stream);
//   batchplan_wait(backend, stream);

#ifndef BATCHPLAN_KERNELS_COPY_H_
#define BATCHPLAN_KERNELS_COPY_H_

#include "batchplan/kernels/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Copies `bytes` from `source` to `destination`, which do not overlap. For "cuda" each may be host
// or device memory, and the copy is enqueued on `stream`: host memory must stay valid until it is
// done. Both may be NULL if `bytes` is 0.
//
// BATCHPLAN_ERROR_NULL_POINTER, or BATCHPLAN_ERROR_CUDA if the copy was refused.
batchplan_status batchplan_copy(batchplan_backend backend, void* destination, const void* source,
                                size_t bytes, void* stream);

// Returns when all work enqueued on `stream` is done; the one function that waits for a device.
// "host" has nothing to wait for.
//
// BATCHPLAN_ERROR_CUDA if work of this or an earlier call failed on the device.
batchplan_status batchplan_wait(batchplan_backend backend, void* stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BATCHPLAN_KERNELS_COPY_H_
