#include "server/planner/partition/descending.h"

#include <algorithm>
#include <numeric>

namespace batchplan {

std::vector<uint32_t> DescendingOrder(std::span<const uint64_t> loads) {
  std::vector<uint32_t> order(loads.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return loads[a] > loads[b]; });
  return order;
}

}  // namespace batchplan
