#include "server/planner/balance/problem.h"

#include <algorithm>

#include "server/planner/packing/decreasing.h"

namespace batchplan {

Problem::Problem(const PackItems& items, const BinLimits& bin_limits, uint32_t rank_count,
                 uint32_t slot_count)
    : item(DecreasingOrder(items.lengths)),
      limits(bin_limits),
      ranks(rank_count),
      slots(slot_count) {
  // Most often the longest is the costliest too, and lengths are quicker to sort.
  const auto costlier = [&](uint32_t a, uint32_t b) { return items.loads[b] < items.loads[a]; };
  if (!std::is_sorted(item.begin(), item.end(), costlier)) {
    std::stable_sort(item.begin(), item.end(), costlier);
  }
  length.resize(items.size());
  count.resize(items.size());
  cost.resize(items.size());
  for (size_t i = 0; i < item.size(); ++i) {
    length[i] = items.lengths[item[i]];
    count[i] = items.count(item[i]);
    cost[i] = items.loads[item[i]];
    total_cost += cost[i];
    total_length += length[i];
  }
  lengths_descend = std::is_sorted(length.rbegin(), length.rend());
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
