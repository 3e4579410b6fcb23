#include <cuda_runtime.h>

#include "src/backends.h"
#include "src/cuda/launch.h"

namespace batchplan::kernels::cuda {

batchplan_status Copy(void* destination, const void* source, size_t bytes, void* stream) {
  return StatusOf(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault,
                                  static_cast<cudaStream_t>(stream)));
}

batchplan_status Wait(void* stream) {
  return StatusOf(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

}  // namespace batchplan::kernels::cuda
