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
  size_t first = 0;
  for (size_t left = size(); left > 0;) {
    const size_t half = left / 2;
    const size_t middle = first + half;
    const bool beyond =
        cost[middle] > most_cost || (lengths_descend && length[middle] > most_length);
    if (beyond) first = middle + 1;
    left = beyond ? left - half - 1 : half;
  }
  return first;
}

}  // namespace batchplan
