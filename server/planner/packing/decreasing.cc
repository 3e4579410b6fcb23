#include "server/planner/packing/decreasing.h"

#include <algorithm>
#include <functional>

namespace batchplan {

std::vector<uint32_t> DecreasingOrder(std::span<const uint32_t> lengths) {
  std::vector<uint64_t> keys(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) keys[i] = uint64_t{lengths[i]} << 32 | i;
  std::sort(keys.begin(), keys.end(), std::greater<>());
  std::vector<uint32_t> order(keys.size());
  std::transform(keys.begin(), keys.end(), order.begin(),
                 [](uint64_t key) { return static_cast<uint32_t>(key); });
  return order;
}

}  // namespace batchplan
