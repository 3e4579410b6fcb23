#include "server/planner/assign/split_bins.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "server/planner/balance/rank_bins.h"

namespace batchplan {
namespace {

// Bins that do not take an item before a search for room is given up.
constexpr size_t kMaxMisses = 64;

Cost CostOf(std::span<const uint32_t> bin, const Items& items) {
  return std::accumulate(bin.begin(), bin.end(), Cost{0},
                         [&](Cost sum, uint32_t item) { return sum + items.costs[item]; });
}

// Bins by (cost, first item), the costliest first.
std::vector<uint32_t> ByDescendingCost(const Bins& bins, const Items& items) {
  std::vector<Cost> costs(bins.size());
  for (size_t bin = 0; bin < bins.size(); ++bin) costs[bin] = CostOf(bins[bin], items);
  std::vector<uint32_t> order(bins.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(costs[b], bins[a].front()) < std::tuple(costs[a], bins[b].front());
  });
  return order;
}

void SortByDescendingCost(std::vector<uint32_t>& chosen, const Items& items) {
  std::sort(chosen.begin(), chosen.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(items.costs[b], a) < std::tuple(items.costs[a], b);
  });
}

// Spreads `chosen`, costliest first, each to the cheapest of `count` bins that has room; nothing if
// an item finds none. No bin stays empty: an empty one is cheaper than any other.
std::optional<Bins> Spread(const std::vector<uint32_t>& chosen, size_t count, const Items& items,
                           const BinLimits& limits) {
  const PackItems packing = items.ForPacking();
  using Entry = std::tuple<Cost, uint32_t, uint32_t>;  // cost, items, bin
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> cheapest;
  for (uint32_t bin = 0; bin < count; ++bin) cheapest.emplace(0, 0, bin);
  std::vector<BinRoom> rooms(count, BinRoom(limits));
  std::vector<uint32_t> bin_of(chosen.size());
  std::vector<Entry> full;
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (;;) {
      if (cheapest.empty() || full.size() > kMaxMisses) return std::nullopt;
      auto [cost, size, bin] = cheapest.top();
      cheapest.pop();
      if (!rooms[bin].Holds(packing, chosen[i])) {
        full.emplace_back(cost, size, bin);
        continue;
      }
      rooms[bin].Take(packing, chosen[i]);
      bin_of[i] = bin;
      cheapest.emplace(cost + items.costs[chosen[i]], size + 1, bin);
      break;
    }
    for (const Entry& entry : full) cheapest.push(entry);
    full.clear();
  }
  return Bins(chosen, bin_of, static_cast<uint32_t>(count));
}

}  // namespace

Bins HalveCostliest(const Bins& bins, size_t target, const Items& items) {
  return HalveLargest(items.costs, bins, target);
}

Bins SplitToCount(const Bins& bins, size_t target, size_t group, const Items& items,
                  const BinLimits& limits) {
  if (bins.size() >= target) return bins;
  const size_t added = target - bins.size();
  const std::vector<uint32_t> order = ByDescendingCost(bins, items);
  // The incomplete group and one whole group, or more where there are not enough bins or sequences
  // to give from.
  const size_t wanted = std::max(bins.size() % group + group, added);
  std::vector<uint32_t> chosen;
  size_t kept = bins.size();
  while (kept > 0 && (bins.size() - kept < wanted || chosen.size() < target - kept)) {
    const std::span<const uint32_t> bin = bins[order[--kept]];
    chosen.insert(chosen.end(), bin.begin(), bin.end());
  }
  SortByDescendingCost(chosen, items);
  const std::optional<Bins> spread = Spread(chosen, target - kept, items, limits);
  if (!spread) return HalveCostliest(bins, target, items);
  Bins result;
  for (size_t i = 0; i < kept; ++i) result.Add(bins[order[i]]);
  for (size_t bin = 0; bin < spread->size(); ++bin) result.Add((*spread)[bin]);
  return result;
}

}  // namespace batchplan
