// Checks the alignment of arrays: misaligned, they are an error here and would be a fault on a
// device.

#ifndef BATCHPLAN_KERNELS_SRC_ALIGNMENT_H_
#define BATCHPLAN_KERNELS_SRC_ALIGNMENT_H_

#include <cstdint>

#include "batchplan/kernels/status.h"

namespace batchplan::kernels {

inline bool IsAligned(const void* array, uint32_t element_size) {
  return reinterpret_cast<uintptr_t>(array) % element_size == 0;
}

// BATCHPLAN_ERROR_MISALIGNED unless all arrays, of elements T, are aligned. NULL counts as aligned.
template <typename... T>
batchplan_status CheckAlignment(const T*... arrays) {
  return (IsAligned(arrays, alignof(T)) && ...) ? BATCHPLAN_OK : BATCHPLAN_ERROR_MISALIGNED;
}

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_ALIGNMENT_H_
