// Bytes moved in 16-byte words by the threads of a warp.
//
// Words are aligned in the destination. The source may lie anywhere: each word is then put together
// of the two aligned ones that it lies across, the second of which the next thread loads as well
// and the cache serves. How far to shift is the same for all words of a run.

#ifndef BATCHPLAN_KERNELS_SRC_CUDA_VECTORS_H_
#define BATCHPLAN_KERNELS_SRC_CUDA_VECTORS_H_

#include <cuda_runtime.h>
#include <stdint.h>

#include "src/cuda/warp.h"

namespace batchplan::kernels::cuda {

inline constexpr uint32_t kVectorBytes = 16;

// Words that a thread loads before it stores the first.
inline constexpr uint32_t kVectorsAtOnce = 4;

__device__ inline uint32_t SkewOf(const char* address) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) % kVectorBytes);
}

// 16 bytes from byte `shift` of `a` on, which go on in `b`.
__device__ inline uint4 Shifted(const uint4& a, const uint4& b, uint32_t shift) {
  const bool by_two = (shift & 8) != 0;
  const bool by_one = (shift & 4) != 0;
  const uint32_t x0 = by_two ? a.z : a.x;
  const uint32_t x1 = by_two ? a.w : a.y;
  const uint32_t x2 = by_two ? b.x : a.z;
  const uint32_t x3 = by_two ? b.y : a.w;
  const uint32_t x4 = by_two ? b.z : b.x;
  const uint32_t x5 = by_two ? b.w : b.y;
  const uint32_t y0 = by_one ? x1 : x0;
  const uint32_t y1 = by_one ? x2 : x1;
  const uint32_t y2 = by_one ? x3 : x2;
  const uint32_t y3 = by_one ? x4 : x3;
  const uint32_t y4 = by_one ? x5 : x4;
  const uint32_t bits = shift % 4 * 8;
  return {__funnelshift_r(y0, y1, bits), __funnelshift_r(y1, y2, bits),
          __funnelshift_r(y2, y3, bits), __funnelshift_r(y3, y4, bits)};
}

// Stores `load(i)` to word i of `to` for all i below `count`.
template <typename Load>
__device__ void StoreVectors(uint4* to, uint32_t count, const Load& load) {
  uint32_t i = threadIdx.x % kWarp;
  for (; i + (kVectorsAtOnce - 1) * kWarp < count; i += kVectorsAtOnce * kWarp) {
    uint4 values[kVectorsAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kVectorsAtOnce; ++k) values[k] = load(i + k * kWarp);
#pragma unroll
    for (uint32_t k = 0; k < kVectorsAtOnce; ++k) __stcg(to + i + k * kWarp, values[k]);
  }
  for (; i < count; i += kWarp) __stcg(to + i, load(i));
}

// Fills `count` words from `from`, which may have any alignment: the aligned words that its first
// and its last byte lie in are read whole.
__device__ inline void CopyVectors(uint4* to, const char* from, uint32_t count) {
  const uint32_t shift = SkewOf(from);
  const auto* const low = reinterpret_cast<const uint4*>(from - shift);
  if (shift == 0) {
    StoreVectors(to, count, [&](uint32_t i) { return __ldg(low + i); });
  } else {
    StoreVectors(to, count,
                 [&](uint32_t i) { return Shifted(__ldg(low + i), __ldg(low + i + 1), shift); });
  }
}

}  // namespace batchplan::kernels::cuda

#endif  // BATCHPLAN_KERNELS_SRC_CUDA_VECTORS_H_
