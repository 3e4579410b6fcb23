#include "server/planner/balance/deal_bins.h"

#include <algorithm>
#include <utility>

#include "server/planner/partition/descending.h"

namespace batchplan {

std::vector<uint32_t> DealBins(std::span<const uint64_t> loads, uint32_t ranks, size_t slots) {
  std::vector<uint32_t> order = DescendingOrder(loads);
  order.resize(ranks * slots, static_cast<uint32_t>(loads.size()));

  std::vector<uint32_t> bin_at(ranks * slots);
  std::vector<std::pair<uint64_t, uint32_t>> lightest(ranks);  // (load so far, rank)
  for (uint32_t rank = 0; rank < ranks; ++rank) lightest[rank] = {0, rank};
  for (size_t slot = 0; slot < slots; ++slot) {
    std::sort(lightest.begin(), lightest.end());
    for (uint32_t i = 0; i < ranks; ++i) {
      const uint32_t bin = order[slot * ranks + i];
      auto& [load, rank] = lightest[i];
      if (bin < loads.size()) load += loads[bin];
      bin_at[rank * slots + slot] = bin;
    }
  }
  return bin_at;
}

}  // namespace batchplan
