#include "server/planner/partition/descending.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "server/planner/partition/radix_sort.h"

namespace batchplan {
namespace {

// The positions of `loads` by ascending key(load), of equal ones the lower position first.
// `largest` is the largest key.
template <typename Key>
std::vector<uint32_t> AscendingBy(std::span<const uint64_t> loads, uint64_t largest, Key key) {
  std::vector<uint32_t> order(loads.size());
  const auto position_bits = static_cast<int>(std::bit_width(loads.size()));
  if (std::bit_width(largest) + position_bits > 64) {
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return key(loads[a]) < key(loads[b]); });
    return order;
  }
  std::vector<uint64_t> keys(loads.size());
  for (size_t i = 0; i < loads.size(); ++i) keys[i] = key(loads[i]) << position_bits | i;
  RadixSort(keys, static_cast<uint32_t>(position_bits));
  const uint64_t position = (uint64_t{1} << position_bits) - 1;
  for (size_t i = 0; i < keys.size(); ++i) order[i] = static_cast<uint32_t>(keys[i] & position);
  return order;
}

uint64_t Largest(std::span<const uint64_t> loads) {
  return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
}

}  // namespace

std::vector<uint32_t> DescendingOrder(std::span<const uint64_t> loads) {
  const uint64_t largest = Largest(loads);
  return AscendingBy(loads, largest, [largest](uint64_t load) { return largest - load; });
}

std::vector<uint32_t> DescendingLaterFirst(std::span<const uint64_t> loads) {
  std::vector<uint32_t> order =
      AscendingBy(loads, Largest(loads), [](uint64_t load) { return load; });
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace batchplan
