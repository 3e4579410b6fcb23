#include "server/planner/fewest_bins/kinds.h"

#include <algorithm>
#include <functional>

#include "server/planner/packing/decreasing.h"
#include "server/planner/packing/length_counts.h"

namespace batchplan {

Kinds KindsOf(std::span<const uint32_t> lengths, uint32_t capacity) {
  Kinds kinds{.lengths = {}, .demand = {}, .capacity = capacity};
  for (const LengthCount& kind : CountLengths(lengths)) {
    kinds.lengths.push_back(kind.length);
    kinds.demand.push_back(kind.count);
  }
  return kinds;
}

uint64_t TokensIn(const Kinds& kinds, std::span<const uint32_t> demand) {
  uint64_t tokens = 0;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    tokens += uint64_t{demand[kind]} * kinds.lengths[kind];
  }
  return tokens;
}

Bins KindsInBins(const Bins& bins, std::span<const uint32_t> lengths, const Kinds& kinds) {
  Bins bins_of_kinds;
  std::vector<uint32_t> bin_of_kinds;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    bin_of_kinds.clear();
    for (uint32_t item : bins[bin]) {
      const auto kind = std::lower_bound(kinds.lengths.begin(), kinds.lengths.end(), lengths[item],
                                         std::greater<>());
      bin_of_kinds.push_back(static_cast<uint32_t>(kind - kinds.lengths.begin()));
    }
    bins_of_kinds.Add(bin_of_kinds);
  }
  return bins_of_kinds;
}

Bins ItemsInBins(const Bins& bins_of_kinds, std::span<const uint32_t> lengths) {
  const std::vector<uint32_t> order = DecreasingOrder(lengths);
  // Where the items of each kind start that no bin has taken yet.
  std::vector<size_t> next;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || lengths[order[i]] != lengths[order[i - 1]]) next.push_back(i);
  }
  Bins bins;
  std::vector<uint32_t> items;
  for (size_t bin = 0; bin < bins_of_kinds.size(); ++bin) {
    items.clear();
    for (uint32_t kind : bins_of_kinds[bin]) items.push_back(order[next[kind]++]);
    bins.Add(items);
  }
  return bins;
}

}  // namespace batchplan
