#include "server/planner/balance/problem.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace batchplan {

Problem::Problem(const PackItems& items, const BinLimits& bin_limits, uint32_t rank_count,
                 uint32_t slot_count)
    : item(items.size()), limits(bin_limits), ranks(rank_count), slots(slot_count) {
  std::iota(item.begin(), item.end(), 0u);
  std::sort(item.begin(), item.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(items.loads[b], items.lengths[b], a) <
           std::tuple(items.loads[a], items.lengths[a], b);
  });
  length.reserve(items.size());
  count.reserve(items.size());
  cost.reserve(items.size());
  for (uint32_t i : item) {
    lengths_descend = lengths_descend && (length.empty() || items.lengths[i] <= length.back());
    length.push_back(items.lengths[i]);
    count.push_back(items.count(i));
    cost.push_back(items.loads[i]);
    total_cost += items.loads[i];
    total_length += items.lengths[i];
  }
}

size_t Problem::FirstWithin(uint64_t most_cost, uint32_t most_length) const {
  const auto first = std::partition_point(cost.begin(), cost.end(),
                                          [&](uint64_t value) { return value > most_cost; });
  const size_t by_cost = first - cost.begin();
  if (!lengths_descend) return by_cost;
  return std::partition_point(length.begin() + static_cast<ptrdiff_t>(by_cost), length.end(),
                              [&](uint32_t value) { return value > most_length; }) -
         length.begin();
}

}  // namespace batchplan
