// Elements of tensors as numbers, one text for the host executor and the CUDA kernels.

#ifndef BATCHPLAN_KERNELS_SRC_ELEMENTS_H_
#define BATCHPLAN_KERNELS_SRC_ELEMENTS_H_

#include <stdint.h>
#include <string.h>

#include "batchplan/kernels/pack.h"
#include "src/host_device.h"

namespace batchplan::kernels {

// Bytes of an element; 0 if there is no such type.
constexpr uint32_t SizeOf(batchplan_data_type type) {
  switch (type) {
    case BATCHPLAN_UINT8:
      return 1;
    case BATCHPLAN_FLOAT16:
    case BATCHPLAN_BFLOAT16:
      return 2;
    case BATCHPLAN_FLOAT32:
    case BATCHPLAN_INT32:
      return 4;
    case BATCHPLAN_FLOAT64:
    case BATCHPLAN_INT64:
      return 8;
    default:
      return 0;
  }
}

BATCHPLAN_HOST_DEVICE inline float FloatOfBits(uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// IEEE 754 binary16, subnormals, infinities and NaN included.
BATCHPLAN_HOST_DEVICE inline float FloatOfHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000U} << 16;
  const uint32_t exponent = (half >> 10) & 0x1FU;
  const uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {
    // fraction * 2^-24, exact.
    const float magnitude = static_cast<float>(fraction) * FloatOfBits(0x33800000U);
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t float_exponent = exponent == 0x1FU ? 0xFFU : exponent + (127 - 15);
  return FloatOfBits(sign | float_exponent << 23 | fraction << 13);
}

// The bits of an element of SizeOf(type) bytes.
BATCHPLAN_HOST_DEVICE inline uint64_t BitsAt(const void* elements, batchplan_data_type type,
                                             int64_t index) {
  switch (type) {
    case BATCHPLAN_UINT8:
      return static_cast<const uint8_t*>(elements)[index];
    case BATCHPLAN_FLOAT16:
    case BATCHPLAN_BFLOAT16:
      return static_cast<const uint16_t*>(elements)[index];
    case BATCHPLAN_FLOAT32:
    case BATCHPLAN_INT32:
      return static_cast<const uint32_t*>(elements)[index];
    default:
      return static_cast<const uint64_t*>(elements)[index];
  }
}

BATCHPLAN_HOST_DEVICE inline double ElementOf(uint64_t bits, batchplan_data_type type) {
  switch (type) {
    case BATCHPLAN_FLOAT32:
      return FloatOfBits(static_cast<uint32_t>(bits));
    case BATCHPLAN_FLOAT64: {
      double value = 0;
      memcpy(&value, &bits, sizeof value);
      return value;
    }
    case BATCHPLAN_FLOAT16:
      return FloatOfHalf(static_cast<uint16_t>(bits));
    case BATCHPLAN_BFLOAT16:
      return FloatOfBits(static_cast<uint32_t>(bits << 16));
    case BATCHPLAN_INT32:
      return static_cast<int32_t>(bits);
    case BATCHPLAN_INT64:
      return static_cast<double>(static_cast<int64_t>(bits));
    default:
      return static_cast<double>(bits);
  }
}

BATCHPLAN_HOST_DEVICE inline uint32_t BitsOfFloat(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// `bits` without the last `count` ones, rounded to nearest, ties to even.
BATCHPLAN_HOST_DEVICE constexpr uint32_t Rounded(uint32_t bits, uint32_t count) {
  const uint32_t odd = (bits >> count) & 1;
  return (bits + ((1U << (count - 1)) - 1) + odd) >> count;
}

BATCHPLAN_HOST_DEVICE inline uint16_t HalfOfFloat(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint32_t sign = bits >> 16 & 0x8000U;
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);
  // From 65520 on, infinity.
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);
  // Below 2^-14, the least normal number, halves are multiples of 2^-24, the unit in the last place
  // of 0.5F: adding 0.5 rounds to a multiple.
  if (magnitude < 0x38800000U) {
    const uint32_t units = BitsOfFloat(FloatOfBits(magnitude) + 0.5F) - BitsOfFloat(0.5F);
    return static_cast<uint16_t>(sign | units);
  }
  return static_cast<uint16_t>(sign | (Rounded(magnitude, 13) - ((127 - 15) << 10)));
}

BATCHPLAN_HOST_DEVICE inline uint16_t Bfloat16OfFloat(float value) {
  const uint32_t bits = BitsOfFloat(value);
  // Both, without a branch, so that a compiler makes vectors of it.
  const uint32_t not_a_number = bits >> 16 | 0x40U;
  const uint32_t number = Rounded(bits, 16);
  return static_cast<uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? not_a_number : number);
}

// A type of elements that are added up: how they are stored, and the type of their sum. Alone is
// From(Of(stored)): of NaN the sum may have other bits.
struct Float32 {
  using Stored = float;
  using Sum = float;
  BATCHPLAN_HOST_DEVICE static float Of(float stored) { return stored; }
  BATCHPLAN_HOST_DEVICE static float From(float sum) { return sum; }
  BATCHPLAN_HOST_DEVICE static float Alone(float stored) { return stored; }
};

struct Float64 {
  using Stored = double;
  using Sum = double;
  BATCHPLAN_HOST_DEVICE static double Of(double stored) { return stored; }
  BATCHPLAN_HOST_DEVICE static double From(double sum) { return sum; }
  BATCHPLAN_HOST_DEVICE static double Alone(double stored) { return stored; }
};

struct Float16 {
  using Stored = uint16_t;
  using Sum = float;
  BATCHPLAN_HOST_DEVICE static float Of(uint16_t stored) { return FloatOfHalf(stored); }
  BATCHPLAN_HOST_DEVICE static uint16_t From(float sum) { return HalfOfFloat(sum); }
  BATCHPLAN_HOST_DEVICE static uint16_t Alone(uint16_t stored) {
    const auto not_a_number = static_cast<uint16_t>((stored & 0x8000U) | 0x7E00U);
    return (stored & 0x7FFFU) > 0x7C00U ? not_a_number : stored;
  }
};

struct Bfloat16 {
  using Stored = uint16_t;
  using Sum = float;
  BATCHPLAN_HOST_DEVICE static float Of(uint16_t stored) {
    return FloatOfBits(uint32_t{stored} << 16);
  }
  BATCHPLAN_HOST_DEVICE static uint16_t From(float sum) { return Bfloat16OfFloat(sum); }
  BATCHPLAN_HOST_DEVICE static uint16_t Alone(uint16_t stored) {
    const auto not_a_number = static_cast<uint16_t>(stored | 0x40U);
    return (stored & 0x7FFFU) > 0x7F80U ? not_a_number : stored;
  }
};

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_ELEMENTS_H_
