#include <cuda_runtime.h>

#include "src/backends.h"

namespace batchplan::kernels::cuda {

batchplan_status BackendStatus() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return BATCHPLAN_OK;
  // A question must not leave an error behind for the next caller of cudaGetLastError.
  static_cast<void>(cudaGetLastError());
  return BATCHPLAN_ERROR_NO_DEVICE;
}

}  // namespace batchplan::kernels::cuda
