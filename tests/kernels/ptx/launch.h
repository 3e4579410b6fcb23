// The kernels of the program: what nvcc's host code registers, by the addresses of its stubs.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_LAUNCH_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_LAUNCH_H_

#include <cuda_runtime_api.h>

namespace batchplan::ptx {

// Enqueues the kernel of a host stub.
cudaError_t Launch(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                   cudaStream_t stream);

// Of the process: the error that a kernel ended with, which every later call returns.
cudaError_t StickyError();
void SetStickyError(cudaError_t error);

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_LAUNCH_H_
