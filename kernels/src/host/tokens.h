// Runs of tokens of one field, in host memory.

#ifndef BATCHPLAN_KERNELS_SRC_HOST_TOKENS_H_
#define BATCHPLAN_KERNELS_SRC_HOST_TOKENS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "batchplan/kernels/pack.h"

namespace batchplan::kernels::host {

class Tokens {
 public:
  explicit Tokens(const batchplan_field& field)
      : source_(static_cast<const std::byte*>(field.source)),
        destination_(static_cast<std::byte*>(field.destination)),
        pad_value_(field.pad_value),
        element_size_(field.element_size),
        token_size_(field.element_size * field.elements_per_token) {}

  // Writes `count` tokens from `destination` on: those from `source` on.
  void Copy(int64_t destination, int64_t source, size_t count) const {
    std::memcpy(At(destination), source_ + static_cast<size_t>(source) * token_size_,
                count * token_size_);
  }

  // The token `source`, `count` times.
  void Repeat(int64_t destination, int64_t source, size_t count) const {
    RepeatBytes(At(destination), source_ + static_cast<size_t>(source) * token_size_, token_size_,
                count * token_size_);
  }

  // The pad value.
  void Pad(int64_t destination, size_t count) const {
    RepeatBytes(At(destination), pad_value_, element_size_, count * token_size_);
  }

  // Integers of the field's element size: `value`, or from `value` on upwards.
  void Number(int64_t destination, int64_t value, size_t count, bool counts_up) const {
    if (element_size_ == sizeof(int32_t)) {
      NumberAs(reinterpret_cast<int32_t*>(At(destination)), value, count, counts_up);
    } else {
      NumberAs(reinterpret_cast<int64_t*>(At(destination)), value, count, counts_up);
    }
  }

 private:
  std::byte* At(int64_t token) const {
    return destination_ + static_cast<size_t>(token) * token_size_;
  }

  template <typename Id>
  static void NumberAs(Id* to, int64_t value, size_t count, bool counts_up) {
    const int64_t step = counts_up ? 1 : 0;
    for (size_t i = 0; i < count; ++i, value += step) to[i] = static_cast<Id>(value);
  }

  // Doubles what is written already, so that the copies grow long.
  static void RepeatBytes(std::byte* to, const void* pattern, size_t pattern_size, size_t size) {
    if (size == 0) return;
    std::memcpy(to, pattern, pattern_size);
    for (size_t written = pattern_size; written < size;) {
      const size_t count = std::min(written, size - written);
      std::memcpy(to + written, to, count);
      written += count;
    }
  }

  const std::byte* source_;
  std::byte* destination_;
  const void* pad_value_;
  size_t element_size_;
  size_t token_size_;
};

}  // namespace batchplan::kernels::host

#endif  // BATCHPLAN_KERNELS_SRC_HOST_TOKENS_H_
