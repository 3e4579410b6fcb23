// What the threads of a warp do together.

#ifndef BATCHPLAN_KERNELS_SRC_CUDA_WARP_H_
#define BATCHPLAN_KERNELS_SRC_CUDA_WARP_H_

#include <cuda_runtime.h>
#include <stdint.h>

#include "src/row_arithmetic.h"

namespace batchplan::kernels::cuda {

inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kWholeWarp = 0xFFFFFFFF;

// The largest i of 0 .. `count` with key(i) <= `value`, 0 if there is none; keys ascend. `value` is
// that of all the warp's threads: each of them probes, so that a search waits for memory
// log32(count) times and not log2(count) times. Every thread must call.
template <typename Key>
__device__ uint32_t LastNotAboveByWarp(uint32_t count, int32_t value, const Key& key) {
  const uint32_t lane = threadIdx.x % kWarp;
  uint32_t low = 0;
  for (uint32_t candidates = count + 1; candidates > 1;) {
    const uint32_t step = (candidates + kWarp - 1) / kWarp;
    const uint32_t probe = lane * step;
    // Candidate 0 stands for "there is none" too.
    const bool not_above = lane == 0 || (probe < candidates && key(low + probe) <= value);
    const auto passed = static_cast<uint32_t>(__popc(__ballot_sync(kWholeWarp, not_above))) - 1;
    low += passed * step;
    candidates = Least(step, candidates - passed * step);
  }
  return low;
}

// LastNotAbove for a value of each thread of the warp, most often close to one another. Every
// thread must call.
__device__ inline uint32_t LastNotAboveOfEach(const int32_t* offsets, uint32_t count,
                                              int32_t value) {
  const int32_t first = __shfl_sync(kWholeWarp, value, 0);
  const int32_t last = __shfl_sync(kWholeWarp, value, kWarp - 1);
  const bool between = first <= value && value <= last;
  if (__ballot_sync(kWholeWarp, between) != kWholeWarp) return LastNotAbove(offsets, count, value);
  const auto offset = [&](uint32_t i) { return offsets[i]; };
  const uint32_t low = LastNotAboveByWarp(count, first, offset);
  if (low == count || offsets[low + 1] > last) return low;
  const uint32_t high =
      low + LastNotAboveByWarp(count - low, last, [&](uint32_t i) { return offsets[low + i]; });
  return low + LastNotAbove(offsets + low, high - low, value);
}

// a / b; 64 bits take a device several times as long as 32.
__device__ inline int64_t WholeQuotient(int64_t a, uint64_t b) {
  if (static_cast<uint64_t>(a) <= UINT32_MAX && b <= UINT32_MAX) {
    return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  }
  return static_cast<int64_t>(static_cast<uint64_t>(a) / b);
}

}  // namespace batchplan::kernels::cuda

#endif  // BATCHPLAN_KERNELS_SRC_CUDA_WARP_H_
