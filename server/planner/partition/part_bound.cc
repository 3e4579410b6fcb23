#include "server/planner/partition/part_bound.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace batchplan {

uint64_t LargestSumBound(std::span<const uint64_t> descending_loads, uint32_t parts,
                         uint64_t least_each) {
  const size_t size = descending_loads.size();
  if (size == 0) return 0;
  const auto sum = [&](size_t begin, size_t end) {
    return std::accumulate(descending_loads.begin() + static_cast<std::ptrdiff_t>(begin),
                           descending_loads.begin() + static_cast<std::ptrdiff_t>(end),
                           uint64_t{0});
  };
  const uint64_t others = std::clamp<uint64_t>(least_each, 1, size) - 1;
  uint64_t bound =
      std::max((sum(0, size) + parts - 1) / parts, descending_loads[0] + sum(size - others, size));
  // Of the k * parts + 1 costliest all, and all but the k + 1 cheapest.
  uint64_t all = descending_loads[0];
  uint64_t costlier = 0;
  for (size_t k = 1; k * parts < size; ++k) {
    all += sum((k - 1) * parts + 1, k * parts + 1);
    costlier += sum((k - 1) * (parts - 1), k * (parts - 1));
    bound = std::max(bound, all - costlier);
  }
  return bound;
}

}  // namespace batchplan
