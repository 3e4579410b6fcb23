// The kernels of the program, which nvcc's host code registers by the addresses of their stubs.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_LAUNCH_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_LAUNCH_H_

#include <cuda_runtime_api.h>

namespace batchplan::ptx {

// Enqueues the kernel of a host stub.
cudaError_t Launch(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                   cudaStream_t stream);

// The error with which a kernel ended; every later call of the process returns it.
cudaError_t StickyError();
void SetStickyError(cudaError_t error);

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_LAUNCH_H_
