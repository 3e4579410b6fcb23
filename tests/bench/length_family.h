// Lengths of one kind, with the ranks and the token budget to plan them for.

#ifndef BATCHPLAN_TESTS_BENCH_LENGTH_FAMILY_H_
#define BATCHPLAN_TESTS_BENCH_LENGTH_FAMILY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace batchplan::bench {

struct Family {
  absl::string_view name;
  // Makes the lengths: how many, and from which seed.
  std::vector<uint32_t> (*lengths)(size_t, uint64_t);
  size_t sequences;
  uint32_t budget;
  uint32_t ranks;
};

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_LENGTH_FAMILY_H_
