#include <cuda_runtime.h>

#include "src/backends.h"

namespace batchplan::kernels::cuda {

batchplan_status Copy(void* destination, const void* source, size_t bytes, void* stream) {
  const cudaError_t error = cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault,
                                            static_cast<cudaStream_t>(stream));
  return error == cudaSuccess ? BATCHPLAN_OK : BATCHPLAN_ERROR_CUDA;
}

batchplan_status Wait(void* stream) {
  const cudaError_t error = cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
  return error == cudaSuccess ? BATCHPLAN_OK : BATCHPLAN_ERROR_CUDA;
}

}  // namespace batchplan::kernels::cuda
