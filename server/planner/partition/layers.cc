#include "server/planner/partition/layers.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace batchplan {

std::vector<uint32_t> DealLayers(std::span<const uint64_t> loads,
                                 std::span<const uint32_t> descending_order, uint32_t parts) {
  std::vector<uint32_t> part_of(loads.size());
  std::vector<std::pair<uint64_t, uint32_t>> lightest;  // sum, part
  for (uint32_t part = 0; part < parts; ++part) lightest.emplace_back(0, part);
  for (size_t layer = 0; layer < descending_order.size(); layer += parts) {
    std::sort(lightest.begin(), lightest.end());
    for (size_t i = 0; i < parts; ++i) {
      const uint32_t load = descending_order[layer + i];
      part_of[load] = lightest[i].second;
      lightest[i].first += loads[load];
    }
  }
  return part_of;
}

}  // namespace batchplan
