#include "server/planner/partition/longest_first.h"

#include <functional>
#include <queue>
#include <tuple>

#include "server/planner/partition/descending.h"

namespace batchplan {

std::vector<uint32_t> LongestFirst(std::span<const uint64_t> loads, uint32_t parts,
                                   uint64_t most_each) {
  using Entry = std::tuple<uint64_t, uint64_t, uint32_t>;  // sum, loads, part
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> lightest;
  for (uint32_t part = 0; part < parts; ++part) lightest.emplace(0, 0, part);
  std::vector<uint32_t> part_of(loads.size());
  for (uint32_t load : DescendingLaterFirst(loads)) {
    const auto [sum, count, part] = lightest.top();
    lightest.pop();
    part_of[load] = part;
    if (count + 1 < most_each) lightest.emplace(sum + loads[load], count + 1, part);
  }
  return part_of;
}

}  // namespace batchplan
