#include "server/planner/partition/descending.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "server/planner/partition/radix_sort.h"

namespace batchplan {

std::vector<uint32_t> DescendingOrder(std::span<const uint64_t> loads) {
  std::vector<uint32_t> order(loads.size());
  if (loads.empty()) return order;
  const uint64_t largest = *std::max_element(loads.begin(), loads.end());
  const int position_bits = std::bit_width(loads.size());
  if (std::bit_width(largest) + position_bits > 64) {
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return loads[a] > loads[b]; });
    return order;
  }
  std::vector<uint64_t> keys(loads.size());
  for (size_t i = 0; i < loads.size(); ++i) keys[i] = (largest - loads[i]) << position_bits | i;
  RadixSort(keys, static_cast<uint32_t>(position_bits));
  const uint64_t position = (uint64_t{1} << position_bits) - 1;
  for (size_t i = 0; i < keys.size(); ++i) order[i] = static_cast<uint32_t>(keys[i] & position);
  return order;
}

}  // namespace batchplan
