#include "server/planner/partition/part_bound.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace batchplan {

uint64_t LargestSumBound(std::span<const uint64_t> descending_loads, uint32_t parts,
                         uint64_t least_each) {
  const size_t size = descending_loads.size();
  if (size == 0) return 0;
  std::vector<uint64_t> before(size + 1, 0);
  for (size_t i = 0; i < size; ++i) before[i + 1] = before[i] + descending_loads[i];
  const uint64_t others = std::clamp<uint64_t>(least_each, 1, size) - 1;
  uint64_t bound = std::max((before[size] + parts - 1) / parts,
                            descending_loads[0] + before[size] - before[size - others]);
  for (size_t k = 1; k * parts < size; ++k) {
    const size_t end = k * parts + 1;
    bound = std::max(bound, before[end] - before[end - (k + 1)]);
  }
  return bound;
}

}  // namespace batchplan
