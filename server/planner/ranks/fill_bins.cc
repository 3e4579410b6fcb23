#include "server/planner/ranks/fill_bins.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

#include "server/planner/balance/rank_bins.h"
#include "server/planner/packing/bin_search.h"
#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/karmarkar_karp.h"
#include "server/planner/packing/limited_room.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/packing/packer.h"
#include "server/planner/padded/splits.h"

namespace batchplan {
namespace {

// After this many bins without room for an item the search for one is given up.
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

// Spreads `chosen`, costliest first, each to the cheapest of `count` bins with room; nothing if an
// item finds none. Bins start as `room`, a BinRoom or LimitedRoom. None stays empty, as an empty
// bin is cheaper than any other.
template <typename Room>
std::optional<Bins> Spread(const std::vector<uint32_t>& chosen, size_t count, const Items& items,
                           const Room& room) {
  const PackItems packing = items.ForPacking();
  using Entry = std::tuple<Cost, uint32_t, uint32_t>;  // cost, items, bin
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> cheapest;
  for (uint32_t bin = 0; bin < count; ++bin) cheapest.emplace(0, 0, bin);
  std::vector<Room> rooms(count, room);
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

// A padded micro-batch that is being filled.
class PaddedRoom {
 public:
  PaddedRoom(const PaddedItems& items, const PaddedLimits& limits)
      : items_(&items), limits_(&limits) {}

  bool Holds(uint32_t item) const {
    if (!limits_->Allow(count_ + items_->count(item), std::max(width_, items_->widths[item]))) {
      return false;
    }
    for (size_t load = 0; load < items_->loads.size(); ++load) {
      if (loads_[load] + LoadOf(load, item) > items_->loads[load].most()) return false;
    }
    return true;
  }
  void Take(uint32_t item) {
    count_ += items_->count(item);
    width_ = std::max(width_, items_->widths[item]);
    for (size_t load = 0; load < items_->loads.size(); ++load) loads_[load] += LoadOf(load, item);
  }
  friend bool operator==(const PaddedRoom&, const PaddedRoom&) = default;

 private:
  double LoadOf(size_t load, uint32_t item) const {
    return items_->loads[load].Of(item, item + size_t{1});
  }

  const PaddedItems* items_;
  const PaddedLimits* limits_;
  uint64_t count_ = 0;
  uint32_t width_ = 0;
  std::array<double, kMaxLoads> loads_ = {};
};

}  // namespace

Bins DraftPacked(const Pass& pass, const Items& items, const SearchContext& context) {
  if (pass.options().packer == Packer::kBalanced) {
    const Effort effort = context.work == PackingWork::kGreedy ? Effort::kFast : pass.effort();
    return PackFewest(items.ForPacking(), pass.bin_limits(), 0, effort, context.allowance).bins;
  }
  return Pack(pass.options().packer, items.ForPacking(), pass.bin_limits(), context.seed,
              context.allowance);
}

std::optional<Bins> SettlePacked(const Pass& pass, const Items& items, const Bins& draft,
                                 size_t count, size_t group, const SearchContext& context) {
  if (draft.size() < count && pass.options().packer == Packer::kKarmarkarKarp) {
    Bins even = PackKarmarkarKarp(items.ForPacking(), pass.bin_limits(), count, context.allowance);
    if (even.size() == count) return even;
  }
  if (draft.size() <= count) return SplitToCount(draft, count, group, items, pass.bin_limits());
  // With searches, whatever the pass's effort: without a packing the request fails.
  const Effort effort = context.work == PackingWork::kGreedy ? Effort::kFast : Effort::kDefault;
  const std::optional<Bins> tighter =
      PackInto(items.ForPacking(), pass.bin_limits(), count, effort, context.allowance);
  if (!tighter) return std::nullopt;
  return SplitToCount(*tighter, count, group, items, pass.bin_limits());
}

SortedItems::SortedItems(const Items& items) : order_(items.size()) {
  std::iota(order_.begin(), order_.end(), 0u);
  const std::span<const uint32_t> rooms = items.lengths;
  const std::span<const uint32_t> widths = items.widths();
  std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(rooms[a], widths[a]) < std::pair(rooms[b], widths[b]);
  });
  widths_.reserve(order_.size());
  for (uint32_t item : order_) widths_.push_back(items.lengths[item]);
  std::vector<double> values;
  loads_.reserve(items.limited.size());
  for (const PackLoad& load : items.limited) {
    values.clear();
    for (uint32_t item : order_) values.push_back(load.values[item]);
    loads_.emplace_back(values, load.most);
  }
  if (items.counts.empty()) return;
  counts_.reserve(order_.size());
  for (uint32_t item : order_) counts_.push_back(items.counts[item]);
}

Bins SortedItems::BinsOf(const Cuts& cuts) const {
  Bins bins;
  for (size_t run = 0; run + 1 < cuts.size(); ++run) {
    bins.Add(std::span(order_).subspan(cuts[run], cuts[run + 1] - cuts[run]));
  }
  return bins;
}

Bins SortedItems::BinsOf(const Bins& positions) const {
  Bins bins;
  std::vector<uint32_t> items;
  for (size_t bin = 0; bin < positions.size(); ++bin) {
    items.clear();
    for (uint32_t position : positions[bin]) items.push_back(order_[position]);
    bins.Add(items);
  }
  return bins;
}

size_t DraftPadded(const Pass& pass, const SortedItems& items) {
  return SortedScan(items.view(), pass.padded_limits()).size() - 1;
}

size_t FewestPadded(const Pass& pass, const Items& items) {
  const SortedItems sorted(items);
  PaddedItems view = sorted.view();
  view.loads = {};
  const size_t runs = SortedScan(view, pass.padded_limits()).size() - 1;
  return std::max<size_t>(runs, LoadBound(items.limited));
}

std::optional<Bins> SettlePadded(const Pass& pass, const Items& items, const SortedItems& sorted,
                                 size_t count, const Allowance& allowance) {
  const PaddedItems view = sorted.view();
  const Cuts cuts = SortedScan(view, pass.padded_limits());
  if (cuts.size() - 1 <= count) {
    return sorted.BinsOf(pass.options().scan == Scan::kOptimal
                             ? OptimalSplit(view, pass.padded_limits(), count, allowance)
                             : HalveRuns({&view, 1}, cuts, count));
  }
  // For single sequences without limited loads no split has fewer runs.
  const bool may_have_fewer = !view.counts.empty() || !view.loads.empty();
  if (!may_have_fewer || sorted.size() > kMaxSearchedItems) return std::nullopt;
  // The widest first, so that the rest is ever easier to place.
  std::vector<uint32_t> order(sorted.size());
  std::iota(order.rbegin(), order.rend(), 0u);
  SearchSteps search(allowance, kMaxSearchSteps, kTicksASearchStep);
  const std::optional<Bins> found =
      SearchBins(order, count, PaddedRoom(view, pass.padded_limits()), search.left);
  if (!found) return std::nullopt;
  return HalveLargest(items.costs, sorted.BinsOf(*found), count);
}

Bins SplitToCount(const Bins& bins, size_t target, size_t group, const Items& items,
                  const BinLimits& limits) {
  if (bins.size() >= target) return bins;
  const size_t added = target - bins.size();
  const std::vector<uint32_t> order = ByDescendingCost(bins, items);
  // The incomplete group and one whole group; more if these have too few bins or items.
  const size_t wanted = std::max(bins.size() % group + group, added);
  std::vector<uint32_t> chosen;
  size_t kept = bins.size();
  while (kept > 0 && (bins.size() - kept < wanted || chosen.size() < target - kept)) {
    const std::span<const uint32_t> bin = bins[order[--kept]];
    chosen.insert(chosen.end(), bin.begin(), bin.end());
  }
  SortByDescendingCost(chosen, items);
  const std::optional<Bins> spread =
      items.limited.empty()
          ? Spread(chosen, target - kept, items, BinRoom(limits))
          : Spread(chosen, target - kept, items, LimitedRoom(items.ForPacking(), limits));
  if (!spread) return HalveLargest(items.costs, bins, target);
  Bins result;
  for (size_t i = 0; i < kept; ++i) result.Add(bins[order[i]]);
  for (size_t bin = 0; bin < spread->size(); ++bin) result.Add((*spread)[bin]);
  return result;
}

}  // namespace batchplan
