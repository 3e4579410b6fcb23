// As much of CUDA as the kernels use, on the calling thread: so that their own source runs, under
// the sanitizers too, where there is no GPU.
//
// A launch runs its blocks one after the other, and the threads of a block in turns, each up to its
// next __syncthreads (block.h); a shared variable is a static one. Slow, and no word on speed or on
// what only the hardware does; but an index that is wrong there is wrong here. Launches from
// several threads wait for one another.

#ifndef BATCHPLAN_TESTS_KERNELS_EMULATION_CUDA_RUNTIME_H_
#define BATCHPLAN_TESTS_KERNELS_EMULATION_CUDA_RUNTIME_H_

#include <cstdint>
#include <cstring>
#include <mutex>

#include "block.h"

#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static

struct dim3 {
  dim3() = default;
  explicit dim3(unsigned int size) : x(size) {}
  unsigned int x = 1;
};

struct uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};

enum cudaError_t {
  cudaSuccess,
  cudaErrorNoDevice,
  cudaErrorInsufficientDriver,
  cudaErrorStubLibrary,
  cudaErrorNoKernelImageForDevice
};
using cudaStream_t = void*;

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  cudaStream_t stream;
};

inline cudaError_t cudaGetDeviceCount(int* devices) {
  *devices = 1;
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
inline cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes,
                                   cudaMemcpyKind /*kind*/, cudaStream_t /*stream*/) {
  std::memcpy(destination, source, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) { return cudaSuccess; }

namespace emulation {

// The variables below are one launch's.
inline std::mutex launching;

}  // namespace emulation

inline dim3 threadIdx;
inline dim3 blockIdx;
inline dim3 gridDim;

inline void __syncthreads() { emulation::Wait(); }

template <typename T>
T __ldg(const T* address) {
  return *address;
}

inline double __dmul_rn(double a, double b) { return a * b; }

// The upper half of high:low shifted right by `shift` of 0 to 31.
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> shift);
}

inline int atomicCAS(int* address, int expected, int desired) {
  __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  return expected;
}

// Returns when all blocks have run.
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const Arguments&... arguments) {
  const std::lock_guard lock(emulation::launching);
  gridDim = config->gridDim;
  for (unsigned int block = 0; block < gridDim.x; ++block) {
    blockIdx = dim3(block);
    emulation::RunBlock(
        config->blockDim.x, [&](unsigned int thread) { threadIdx = dim3(thread); },
        [&] { kernel(arguments...); });
  }
  return cudaSuccess;
}

#endif  // BATCHPLAN_TESTS_KERNELS_EMULATION_CUDA_RUNTIME_H_
