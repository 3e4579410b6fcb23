// A hash that is the same on every replica and in every version, which std::hash and absl::Hash are
// not. For telling values apart that nobody chose to collide: FNV-1a (G. Fowler, L. C. Noll,
// K.-P. Vo).

#ifndef BATCHPLAN_SERVER_FITTING_FNV_HASH_H_
#define BATCHPLAN_SERVER_FITTING_FNV_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace batchplan {

class FnvHash {
 public:
  void AddByte(unsigned char byte) { value_ = (value_ ^ byte) * 1099511628211U; }
  void Add(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) AddByte(static_cast<unsigned char>(value >> shift));
  }
  void Add(absl::string_view bytes) {
    for (const char byte : bytes) AddByte(static_cast<unsigned char>(byte));
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037U;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_FNV_HASH_H_
