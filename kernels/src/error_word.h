// The rule of the error word: the first error stays.

#ifndef BATCHPLAN_KERNELS_SRC_ERROR_WORD_H_
#define BATCHPLAN_KERNELS_SRC_ERROR_WORD_H_

#include "batchplan/kernels/status.h"
#include "src/host_device.h"

namespace batchplan::kernels {

// `error_word` may be null on the host. Any thread of a device may report.
BATCHPLAN_HOST_DEVICE inline void ReportError(batchplan_status* error_word,
                                              batchplan_status status) {
#ifdef __CUDA_ARCH__
  atomicCAS(error_word, BATCHPLAN_OK, status);
#else
  if (error_word != nullptr && *error_word == BATCHPLAN_OK) *error_word = status;
#endif
}

// Whether something went wrong before. `error_word` may be null on the host.
BATCHPLAN_HOST_DEVICE inline bool HoldsError(const batchplan_status* error_word) {
#ifdef __CUDA_ARCH__
  return *static_cast<const volatile batchplan_status*>(error_word) != BATCHPLAN_OK;
#else
  return error_word != nullptr && *error_word != BATCHPLAN_OK;
#endif
}

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_ERROR_WORD_H_
