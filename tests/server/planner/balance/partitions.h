// Random loads, the sums of their partitions, and the best partition.

#ifndef BATCHPLAN_TESTS_SERVER_PLANNER_BALANCE_PARTITIONS_H_
#define BATCHPLAN_TESTS_SERVER_PLANNER_BALANCE_PARTITIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "tests/support/assignments.h"
#include "tests/support/generators.h"

namespace batchplan::testing {

// Loads that include small numbers, zeros, equal ones, large ones, and one that outweighs all
// others.
inline std::vector<uint64_t> MixedLoads(RandomStream& random, size_t size) {
  std::vector<uint64_t> loads(size);
  const auto least = random.OneOf<uint64_t>({0, 1, 1000});
  const auto most = least + random.OneOf<uint64_t>({0, 2, 30, 5000, 1'000'000'000});
  for (uint64_t& load : loads) load = random.Between(least, most);
  if (size > 0 && random.Chance(10)) loads[random.Between(0, size - 1)] = size * most;
  return loads;
}

inline std::vector<uint64_t> SumsOf(std::span<const uint64_t> loads,
                                    std::span<const uint32_t> part_of, uint32_t parts) {
  std::vector<uint64_t> sums(parts, 0);
  for (size_t i = 0; i < loads.size(); ++i) sums[part_of[i]] += loads[i];
  return sums;
}

inline uint64_t LargestSum(std::span<const uint64_t> loads, std::span<const uint32_t> part_of,
                           uint32_t parts) {
  const std::vector<uint64_t> sums = SumsOf(loads, part_of, parts);
  return *std::max_element(sums.begin(), sums.end());
}

inline std::vector<uint64_t> CountsOf(std::span<const uint32_t> part_of, uint32_t parts) {
  std::vector<uint64_t> counts(parts, 0);
  for (const uint32_t part : part_of) ++counts.at(part);
  return counts;
}

// The least largest sum over all assignments that `legal` admits. O(parts^n).
inline uint64_t LeastLargestSum(
    std::span<const uint64_t> loads, uint32_t parts,
    const std::function<bool(const std::vector<uint32_t>&)>& legal = [](const auto&) {
      return true;
    }) {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  ForEachAssignment(loads.size(), parts, [&](const std::vector<uint32_t>& part_of) {
    if (legal(part_of)) least = std::min(least, LargestSum(loads, part_of, parts));
  });
  return least;
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_PLANNER_BALANCE_PARTITIONS_H_
