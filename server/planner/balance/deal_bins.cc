#include "server/planner/balance/deal_bins.h"

#include "server/planner/partition/descending.h"
#include "server/planner/partition/layers.h"

namespace batchplan {

std::vector<uint32_t> DealBins(std::span<const uint64_t> loads, uint32_t ranks, size_t slots) {
  std::vector<uint64_t> with_empty(loads.begin(), loads.end());
  with_empty.resize(ranks * slots, 0);
  const std::vector<uint32_t> order = DescendingOrder(with_empty);
  const std::vector<uint32_t> rank_of = DealLayers(with_empty, order, ranks);
  std::vector<uint32_t> bin_at(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    bin_at[rank_of[order[i]] * slots + i / ranks] = order[i];
  }
  return bin_at;
}

}  // namespace batchplan
