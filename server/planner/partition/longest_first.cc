#include "server/planner/partition/longest_first.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>

namespace batchplan {

std::vector<uint32_t> LongestFirst(std::span<const uint64_t> loads, uint32_t parts,
                                   uint64_t most_each) {
  std::vector<uint32_t> order(loads.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(loads[a], a) > std::tuple(loads[b], b);
  });
  using Entry = std::tuple<uint64_t, uint64_t, uint32_t>;  // sum, loads, part
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> lightest;
  for (uint32_t part = 0; part < parts; ++part) lightest.emplace(0, 0, part);
  std::vector<uint32_t> part_of(loads.size());
  for (uint32_t load : order) {
    const auto [sum, count, part] = lightest.top();
    lightest.pop();
    part_of[load] = part;
    if (count + 1 < most_each) lightest.emplace(sum + loads[load], count + 1, part);
  }
  return part_of;
}

}  // namespace batchplan
