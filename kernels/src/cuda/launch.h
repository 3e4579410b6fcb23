// What the launchers of the CUDA kernels have in common.

#ifndef BATCHPLAN_KERNELS_SRC_CUDA_LAUNCH_H_
#define BATCHPLAN_KERNELS_SRC_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include "batchplan/kernels/status.h"

namespace batchplan::kernels::cuda {

inline batchplan_status StatusOf(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return BATCHPLAN_OK;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorNoKernelImageForDevice:
      return BATCHPLAN_ERROR_NO_DEVICE;
    default:
      return BATCHPLAN_ERROR_CUDA;
  }
}

// Enqueues `kernel` on `stream`, a cudaStream_t.
template <typename... Parameters, typename... Arguments>
batchplan_status Launch(void (*kernel)(Parameters...), uint32_t blocks, uint32_t threads,
                        void* stream, const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = static_cast<cudaStream_t>(stream);
  return StatusOf(cudaLaunchKernelEx(&config, kernel, arguments...));
}

}  // namespace batchplan::kernels::cuda

#endif  // BATCHPLAN_KERNELS_SRC_CUDA_LAUNCH_H_
