#include "batchplan/kernels/copy.h"

#include <cstring>

#include "src/backends.h"

namespace kernels = batchplan::kernels;

batchplan_status batchplan_copy(batchplan_backend backend, void* destination, const void* source,
                                size_t bytes, void* stream) {
  if (const batchplan_status status = batchplan_backend_status(backend); status != BATCHPLAN_OK) {
    return status;
  }
  if (bytes == 0) return BATCHPLAN_OK;
  if (destination == nullptr || source == nullptr) return BATCHPLAN_ERROR_NULL_POINTER;
  if (backend == BATCHPLAN_BACKEND_CUDA) {
    return kernels::cuda::Copy(destination, source, bytes, stream);
  }
  std::memcpy(destination, source, bytes);
  return BATCHPLAN_OK;
}

batchplan_status batchplan_wait(batchplan_backend backend, void* stream) {
  if (const batchplan_status status = batchplan_backend_status(backend); status != BATCHPLAN_OK) {
    return status;
  }
  return backend == BATCHPLAN_BACKEND_CUDA ? kernels::cuda::Wait(stream) : BATCHPLAN_OK;
}
