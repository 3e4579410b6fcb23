// A hash that is the same on every replica and in every version, which std::hash and absl::Hash are
// not. Tells values apart unless somebody chose them to collide: FNV-1a (G. Fowler, L. C. Noll,
// K.-P. Vo), in 64 bits.

#ifndef BATCHPLAN_SERVER_BASE_FNV_HASH_H_
#define BATCHPLAN_SERVER_BASE_FNV_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace batchplan {

class FnvHash {
 public:
  // Adds its eight bytes, the lowest first.
  void Add(uint64_t value);
  void Add(absl::string_view bytes);
  uint64_t value() const { return value_; }

 private:
  void AddByte(unsigned char byte) { value_ = (value_ ^ byte) * 1099511628211U; }

  uint64_t value_ = 14695981039346656037U;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_BASE_FNV_HASH_H_
