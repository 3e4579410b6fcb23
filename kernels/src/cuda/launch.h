// What the launchers of the CUDA kernels have in common.

#ifndef BATCHPLAN_KERNELS_SRC_CUDA_LAUNCH_H_
#define BATCHPLAN_KERNELS_SRC_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include "batchplan/kernels/status.h"

namespace batchplan::kernels::cuda {

// The last error of the CUDA runtime on this thread.
inline thread_local cudaError_t last_error = cudaSuccess;

inline batchplan_status StatusOf(cudaError_t error) {
  if (error == cudaSuccess) return BATCHPLAN_OK;
  last_error = error;
  switch (error) {
    // There is none, or no driver for it.
    case cudaErrorNoDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
    // This build has neither machine code for the device nor code that can be compiled to it.
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorInvalidPtx:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorJitCompilationDisabled:
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
