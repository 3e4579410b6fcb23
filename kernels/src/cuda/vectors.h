// How the bytes of a token move on a device: in words as wide as the alignment of both sides
// allows.
//
// Words divides every token of a field into the same number of words, so that a word never crosses
// from one token into the next:
//
//   kAligned   both pointers and the token's size divide by the word: one load, one store.
//   kShifted   wide tokens of any size: 16-byte words aligned in the destination; the source lies
//              across two of its own, which are loaded both and shifted together. The words at a
//              token's ends are cut to the token and move byte by byte.

#ifndef BATCHPLAN_KERNELS_SRC_CUDA_VECTORS_H_
#define BATCHPLAN_KERNELS_SRC_CUDA_VECTORS_H_

#include <cuda_runtime.h>
#include <stdint.h>

namespace batchplan::kernels::cuda {

inline constexpr uint32_t kVectorBytes = 16;

// Narrower tokens move in aligned words whatever their width: there is little to gain.
inline constexpr uint64_t kLeastShiftedBytes = 128;

// How the tokens of a field are divided; chosen on the host.
struct Words {
  // 1, 2, 4, 8 or 16 bytes, or 0: kShifted.
  uint32_t aligned_bytes;
  uint32_t per_token;
};

// `pointers` is both addresses or-ed together.
inline Words WordsOf(uintptr_t pointers, uint64_t token_bytes) {
  const uint64_t bits = pointers | token_bytes | kVectorBytes;
  const auto aligned = static_cast<uint32_t>(bits & (~bits + 1));
  if (aligned < kVectorBytes && token_bytes >= kLeastShiftedBytes) {
    // As many as the token can touch at any address.
    return {0, static_cast<uint32_t>((token_bytes + 2 * (kVectorBytes - 1)) / kVectorBytes)};
  }
  return {aligned, static_cast<uint32_t>(token_bytes / aligned)};
}

// The 16 bytes at `from`, any address; zeros for those outside of [begin, end), which are not read.
__device__ inline uint4 LoadWithin(const char* from, const char* begin, const char* end) {
  const uint32_t shift = reinterpret_cast<uintptr_t>(from) % kVectorBytes;
  const char* const low = from - shift;
  const uint32_t span = shift == 0 ? kVectorBytes : 2 * kVectorBytes;
  if (low < begin || low + span > end) {
    uint32_t words[4] = {};
#pragma unroll
    for (uint32_t i = 0; i < kVectorBytes; ++i) {
      if (from + i < begin || from + i >= end) continue;
      words[i / 4] |= uint32_t{static_cast<unsigned char>(from[i])} << (i % 4 * 8);
    }
    return {words[0], words[1], words[2], words[3]};
  }
  if (shift == 0) return __ldg(reinterpret_cast<const uint4*>(low));
  const uint4 a = __ldg(reinterpret_cast<const uint4*>(low));
  const uint4 b = __ldg(reinterpret_cast<const uint4*>(low + kVectorBytes));
  // Five 32-bit words around the 16 bytes, then each pair of neighbours shifted together.
  const uint32_t words = shift / 4;
  const uint32_t bits = shift % 4 * 8;
  const auto select = [&](uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3) {
    const uint32_t low_pair = words % 2 == 0 ? w0 : w1;
    const uint32_t high_pair = words % 2 == 0 ? w2 : w3;
    return words < 2 ? low_pair : high_pair;
  };
  const uint32_t w0 = select(a.x, a.y, a.z, a.w);
  const uint32_t w1 = select(a.y, a.z, a.w, b.x);
  const uint32_t w2 = select(a.z, a.w, b.x, b.y);
  const uint32_t w3 = select(a.w, b.x, b.y, b.z);
  const uint32_t w4 = select(b.x, b.y, b.z, b.w);
  return {__funnelshift_r(w0, w1, bits), __funnelshift_r(w1, w2, bits),
          __funnelshift_r(w2, w3, bits), __funnelshift_r(w3, w4, bits)};
}

// Writes the part of `value` that lies within [begin, end), `to` being the address of its first
// byte, aligned to 16.
__device__ inline void StoreWithin(char* to, const char* begin, const char* end, uint4 value) {
  if (to >= begin && to + kVectorBytes <= end) {
    *reinterpret_cast<uint4*>(to) = value;
    return;
  }
  const uint32_t words[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
  for (uint32_t i = 0; i < kVectorBytes; ++i) {
    if (to + i >= begin && to + i < end) to[i] = static_cast<char>(words[i / 4] >> (i % 4 * 8));
  }
}

}  // namespace batchplan::kernels::cuda

#endif  // BATCHPLAN_KERNELS_SRC_CUDA_VECTORS_H_
