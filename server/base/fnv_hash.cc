#include "server/base/fnv_hash.h"

namespace batchplan {

void FnvHash::Add(uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) AddByte(static_cast<unsigned char>(value >> shift));
}

void FnvHash::Add(absl::string_view bytes) {
  for (const char byte : bytes) AddByte(static_cast<unsigned char>(byte));
}

}  // namespace batchplan
