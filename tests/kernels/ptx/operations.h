// What the instructions of arithmetic.cc compute, from slots to slots. Integers wrap.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_OPERATIONS_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_OPERATIONS_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ptx/module.h"
#include "ptx/values.h"

namespace batchplan::ptx::operations {

using Slots = uint64_t*;

template <typename T>
T Source(Slots slots, const Instruction& instruction, int i) {
  return Get<T>(slots[instruction.sources[i]]);
}
template <typename T>
void Result(Slots slots, const Instruction& instruction, T value) {
  slots[instruction.destinations[0]] = Put(value);
}

// The integer type of twice the size.
template <typename T>
struct Wide;
template <>
struct Wide<int16_t> {
  using Type = int32_t;
};
template <>
struct Wide<uint16_t> {
  using Type = uint32_t;
};
template <>
struct Wide<int32_t> {
  using Type = int64_t;
};
template <>
struct Wide<uint32_t> {
  using Type = uint64_t;
};
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;
template <>
struct Wide<int64_t> {
  using Type = Int128;
};
template <>
struct Wide<uint64_t> {
  using Type = Uint128;
};

// Integers wrap as on the device: computes without a sign in 64 bits.
template <typename T>
T Wrapped(uint64_t value) {
  return static_cast<T>(value);
}

struct Add {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a + b;
    else
      return Wrapped<T>(Put(a) + Put(b));
  }
};
struct Sub {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a - b;
    else
      return Wrapped<T>(Put(a) - Put(b));
  }
};
struct Mul {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else
      return Wrapped<T>(Put(a) * Put(b));
  }
};
struct MulHi {
  template <typename T>
  static T Of(T a, T b) {
    using W = typename Wide<T>::Type;
    return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> (8 * sizeof(T)));
  }
};
// If one operand is NaN, the result is the other one.
struct Min {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return std::fmin(a, b);
    else
      return a < b ? a : b;
  }
};
struct Max {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return std::fmax(a, b);
    else
      return a > b ? a : b;
  }
};
// The executor reports divisors of 0.
struct Div {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return static_cast<T>(-1);
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Wrapped<T>(0 - Put(a));
    }
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <typename T>
  static T Of(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct And {
  template <typename T>
  static T Of(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static T Of(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static T Of(T a, T b) {
    return a ^ b;
  }
};
// A shift by more than the width gives 0.
struct Shl {
  template <typename T>
  static T Of(T a, uint32_t bits) {
    return bits >= 8 * sizeof(T) ? T{0} : Wrapped<T>(Put(a) << bits);
  }
};
struct Shr {
  template <typename T>
  static T Of(T a, uint32_t bits) {
    if (bits >= 8 * sizeof(T)) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> bits);
  }
};

template <typename Op, typename T>
void Binary(Slots slots, const Instruction& i) {
  Result(slots, i, Op::template Of<T>(Source<T>(slots, i, 0), Source<T>(slots, i, 1)));
}
template <typename Op, typename T>
void Shift(Slots slots, const Instruction& i) {
  Result(slots, i, Op::template Of<T>(Source<T>(slots, i, 0), Source<uint32_t>(slots, i, 1)));
}
template <typename T>
void MulWide(Slots slots, const Instruction& i) {
  using W = typename Wide<T>::Type;
  Result(
      slots, i,
      Mul::Of<W>(static_cast<W>(Source<T>(slots, i, 0)), static_cast<W>(Source<T>(slots, i, 1))));
}
template <typename T>
void MadWide(Slots slots, const Instruction& i) {
  using W = typename Wide<T>::Type;
  const W product =
      Mul::Of<W>(static_cast<W>(Source<T>(slots, i, 0)), static_cast<W>(Source<T>(slots, i, 1)));
  Result(slots, i, Add::Of<W>(product, Source<W>(slots, i, 2)));
}
template <typename Op, typename T>
void Mad(Slots slots, const Instruction& i) {
  const T product = Op::template Of<T>(Source<T>(slots, i, 0), Source<T>(slots, i, 1));
  Result(slots, i, Add::Of<T>(product, Source<T>(slots, i, 2)));
}
template <typename T>
void Fma(Slots slots, const Instruction& i) {
  Result(slots, i,
         std::fma(Source<T>(slots, i, 0), Source<T>(slots, i, 1), Source<T>(slots, i, 2)));
}
template <typename T>
void Not(Slots slots, const Instruction& i) {
  Result(slots, i, static_cast<T>(~Source<T>(slots, i, 0)));
}
inline void NotPredicate(Slots slots, const Instruction& i) {
  Result(slots, i, slots[i.sources[0]] ^ 1);
}
template <typename T>
void Neg(Slots slots, const Instruction& i) {
  if constexpr (std::is_floating_point_v<T>)
    Result(slots, i, -Source<T>(slots, i, 0));
  else
    Result(slots, i, Wrapped<T>(0 - slots[i.sources[0]]));
}
template <typename T>
void Abs(Slots slots, const Instruction& i) {
  const T value = Source<T>(slots, i, 0);
  if constexpr (std::is_floating_point_v<T>)
    Result(slots, i, std::fabs(value));
  else
    Result(slots, i, value < 0 ? Wrapped<T>(0 - Put(value)) : value);
}
template <typename T>
void Mov(Slots slots, const Instruction& i) {
  Result(slots, i, Source<T>(slots, i, 0));
}
template <typename T>
void Selp(Slots slots, const Instruction& i) {
  Result(slots, i, Source<T>(slots, i, slots[i.sources[2]] != 0 ? 0 : 1));
}
template <uint64_t kWindow>
void FromWindow(Slots slots, const Instruction& i) {
  Result(slots, i, slots[i.sources[0]] - kWindow);
}
template <uint64_t kWindow>
void ToWindow(Slots slots, const Instruction& i) {
  Result(slots, i, slots[i.sources[0]] + kWindow);
}

template <typename T>
void Clz(Slots slots, const Instruction& i) {
  Result(slots, i, static_cast<uint32_t>(std::countl_zero(Source<T>(slots, i, 0))));
}
template <typename T>
void Popc(Slots slots, const Instruction& i) {
  Result(slots, i, static_cast<uint32_t>(std::popcount(Source<T>(slots, i, 0))));
}
// The highest bit that differs from the sign, or all ones.
template <typename T>
void Bfind(Slots slots, const Instruction& i) {
  T value = Source<T>(slots, i, 0);
  if (value < 0) value = static_cast<T>(~value);
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  Result(slots, i, static_cast<uint32_t>(std::bit_width(bits)) - 1);
}
// The distance by which a shift moves that bit to the front.
template <typename T>
void BfindShift(Slots slots, const Instruction& i) {
  Bfind<T>(slots, i);
  uint64_t& result = slots[i.destinations[0]];
  if (result != UINT32_MAX) result = 8 * sizeof(T) - 1 - result;
}
template <typename T>
void Sqrt(Slots slots, const Instruction& i) {
  Result(slots, i, std::sqrt(Source<T>(slots, i, 0)));
}
template <typename T>
void Brev(Slots slots, const Instruction& i) {
  T value = Source<T>(slots, i, 0);
  T reversed = 0;
  for (size_t bit = 0; bit < 8 * sizeof(T); ++bit, value >>= 1) {
    reversed = static_cast<T>(reversed << 1 | (value & 1));
  }
  Result(slots, i, reversed);
}
template <typename T>
void Bfe(Slots slots, const Instruction& i) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = 8 * sizeof(T);
  const U value = Source<U>(slots, i, 0);
  const uint32_t begin = Source<uint32_t>(slots, i, 1) & 0xff;
  const uint32_t length = Source<uint32_t>(slots, i, 2) & 0xff;
  U result = 0;
  bool sign = false;
  if (std::is_signed_v<T> && length > 0) {
    const uint32_t last = begin + length - 1 < kBits ? begin + length - 1 : kBits - 1;
    sign = (value >> last & 1) != 0;
  }
  for (uint32_t bit = 0; bit < kBits; ++bit) {
    const bool inside = bit < length && begin + bit < kBits;
    const bool set = inside ? (value >> (begin + bit) & 1) != 0 : sign;
    result |= static_cast<U>(static_cast<U>(set) << bit);
  }
  Result(slots, i, static_cast<T>(result));
}
template <typename T>
void Bfi(Slots slots, const Instruction& i) {
  const T from = Source<T>(slots, i, 0);
  T into = Source<T>(slots, i, 1);
  const uint32_t begin = Source<uint32_t>(slots, i, 2) & 0xff;
  const uint32_t length = Source<uint32_t>(slots, i, 3) & 0xff;
  for (uint32_t bit = 0; bit < length && begin + bit < 8 * sizeof(T); ++bit) {
    const T mask = T{1} << (begin + bit);
    into = (from >> bit & 1) != 0 ? into | mask : into & ~mask;
  }
  Result(slots, i, into);
}
inline void Lop3(Slots slots, const Instruction& i) {
  const auto table = Source<uint32_t>(slots, i, 3);
  uint32_t result = 0;
  for (uint32_t row = 0; row < 8; ++row) {
    if ((table >> row & 1) == 0) continue;
    const uint32_t a = Source<uint32_t>(slots, i, 0);
    const uint32_t b = Source<uint32_t>(slots, i, 1);
    const uint32_t c = Source<uint32_t>(slots, i, 2);
    result |= ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? c : ~c);
  }
  Result(slots, i, result);
}
// Chooses each of four bytes from eight, or replicates the sign of one.
inline void Prmt(Slots slots, const Instruction& i) {
  const uint64_t bytes =
      uint64_t{Source<uint32_t>(slots, i, 1)} << 32 | Source<uint32_t>(slots, i, 0);
  const uint32_t selectors = Source<uint32_t>(slots, i, 2);
  uint32_t result = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t selector = selectors >> (4 * k) & 0xf;
    auto byte = static_cast<uint8_t>(bytes >> (8 * (selector & 7)));
    if ((selector & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= uint32_t{byte} << (8 * k);
  }
  Result(slots, i, result);
}
template <bool kLeft, bool kClamp>
void Shf(Slots slots, const Instruction& i) {
  const uint64_t both =
      uint64_t{Source<uint32_t>(slots, i, 1)} << 32 | Source<uint32_t>(slots, i, 0);
  uint32_t bits = Source<uint32_t>(slots, i, 2);
  bits = kClamp ? (bits < 32 ? bits : 32) : bits & 31;
  Result(slots, i, static_cast<uint32_t>(kLeft ? both << bits >> 32 : both >> bits));
}

template <typename D, typename S>
void Cvt(Slots slots, const Instruction& i) {
  Result(slots, i, static_cast<D>(Source<S>(slots, i, 0)));
}
inline double Nearest(double value) { return std::nearbyint(value); }
inline double Zero(double value) { return std::trunc(value); }
inline double Down(double value) { return std::floor(value); }
inline double Up(double value) { return std::ceil(value); }
// Values out of range become the largest or smallest number, NaN becomes 0.
template <typename D, typename S, double (*kRound)(double)>
void CvtToInteger(Slots slots, const Instruction& i) {
  const double value = kRound(static_cast<double>(Source<S>(slots, i, 0)));
  using Limits = std::numeric_limits<D>;
  // 2 to the number of bits is a double; the maximum of 64 bits is not.
  if (std::isnan(value)) return Result(slots, i, D{0});
  if (value >= std::ldexp(1.0, Limits::digits)) return Result(slots, i, Limits::max());
  if (value <= static_cast<double>(Limits::min())) return Result(slots, i, Limits::min());
  Result(slots, i, static_cast<D>(value));
}

// Comparisons. With NaN, float comparisons are false, except the unordered ones.
struct Eq {
  template <typename T>
  static bool Of(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <typename T>
  static bool Of(T a, T b) {
    return a == a && b == b && a != b;
  }
};
struct Lt {
  template <typename T>
  static bool Of(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <typename T>
  static bool Of(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <typename T>
  static bool Of(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <typename T>
  static bool Of(T a, T b) {
    return a >= b;
  }
};
// Negates the opposite comparison, which makes it true for NaN.
template <typename Opposite>
struct Unordered {
  template <typename T>
  static bool Of(T a, T b) {
    return !Opposite::template Of<T>(a, b);
  }
};
template <typename Op, typename T>
void Setp(Slots slots, const Instruction& i) {
  const bool holds = Op::template Of<T>(Source<T>(slots, i, 0), Source<T>(slots, i, 1));
  slots[i.destinations[0]] = holds ? 1 : 0;
  if (i.destinations[1] != kNoSlot) slots[i.destinations[1]] = holds ? 0 : 1;
}

template <uint32_t kBits>
void Pack(Slots slots, const Instruction& i) {
  const uint64_t high = Truncate(slots[i.sources[1]], kBits / 8);
  slots[i.destinations[0]] = high << kBits | Truncate(slots[i.sources[0]], kBits / 8);
}
template <uint32_t kBits>
void Unpack(Slots slots, const Instruction& i) {
  const uint64_t value = slots[i.sources[0]];
  slots[i.destinations[0]] = Truncate(value, kBits / 8);
  slots[i.destinations[1]] = Truncate(value >> kBits, kBits / 8);
}

}  // namespace batchplan::ptx::operations

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_OPERATIONS_H_
