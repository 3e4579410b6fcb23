// Values in slots of 64 bits.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_VALUES_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_VALUES_H_

#include <bit>
#include <cstdint>
#include <type_traits>

namespace batchplan::ptx {

// The value of type T that a slot holds.
template <typename T>
T Get(uint64_t slot) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(slot));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(slot);
  } else {
    return static_cast<T>(slot);
  }
}

// Sign-extends signed integers, so that a wider register holds the same number.
template <typename T>
uint64_t Put(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

// Keeps the low `size` bytes.
inline uint64_t Truncate(uint64_t slot, uint32_t size) {
  return size >= 8 ? slot : slot & ((uint64_t{1} << (8 * size)) - 1);
}

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_VALUES_H_
