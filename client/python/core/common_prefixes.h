// What sequences of tokens have in common from their first tokens on.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_COMMON_PREFIXES_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_COMMON_PREFIXES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace batchplan::python {

// As Manifest.shared_prefixes and shared_with have it.
struct CommonPrefixes {
  std::vector<uint32_t> shared_prefixes;
  std::vector<uint32_t> shared_with;
};

// Of the tokens of each sequence: the relations from which the prefix of any two follows, where it
// has `minimum` tokens or more; shorter ones count as none. Each sequence is related to the
// earliest one with which it shares most, by as many tokens; copies and prefixes of others too. At
// most 2^32 - 1 sequences, each as long.
//
// Sorts from the first token on, and reads no token of a common prefix more than a few times, so
// that sequences that share much take no longer: O(tokens + sequences log sequences) where prefixes
// branch in few places, at most O(tokens log sequences).
CommonPrefixes FindCommonPrefixes(std::span<const std::span<const int32_t>> sequences,
                                  uint32_t minimum);
CommonPrefixes FindCommonPrefixes(std::span<const std::span<const int64_t>> sequences,
                                  uint32_t minimum);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_COMMON_PREFIXES_H_
