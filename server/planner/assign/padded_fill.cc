#include "server/planner/assign/padded_fill.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/planner/assign/split_bins.h"
#include "server/planner/packing/search_bins.h"
#include "server/planner/padded/optimal_split.h"
#include "server/planner/padded/sorted_scan.h"

namespace batchplan {
namespace {

constexpr size_t kMaxSearchedItems = 64;
constexpr uint64_t kMaxSteps = 1 << 14;

// A padded micro-batch that fills up.
class PaddedRoom {
 public:
  PaddedRoom(const PaddedItems& items, const PaddedLimits& limits)
      : items_(&items), limits_(&limits) {}

  bool Holds(uint32_t item) const {
    return limits_->Allow(count_ + items_->count(item), std::max(width_, items_->widths[item]));
  }
  void Take(uint32_t item) {
    count_ += items_->count(item);
    width_ = std::max(width_, items_->widths[item]);
  }
  friend bool operator==(const PaddedRoom&, const PaddedRoom&) = default;

 private:
  const PaddedItems* items_;
  const PaddedLimits* limits_;
  uint64_t count_ = 0;
  uint32_t width_ = 0;
};

}  // namespace

SortedItems::SortedItems(const Items& items) : order_(items.size()) {
  std::iota(order_.begin(), order_.end(), 0u);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](uint32_t a, uint32_t b) { return items.lengths[a] < items.lengths[b]; });
  widths_.reserve(order_.size());
  for (uint32_t item : order_) widths_.push_back(items.lengths[item]);
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

size_t DraftPadded(const PassInstance& pass, const SortedItems& items) {
  return SortedScan(items.view(), pass.padded_limits()).size() - 1;
}

std::optional<Bins> SettlePadded(const PassInstance& pass, const Items& items,
                                 const SortedItems& sorted, size_t count) {
  const PaddedItems view = sorted.view();
  const Cuts cuts = SortedScan(view, pass.padded_limits());
  if (cuts.size() - 1 <= count) {
    return sorted.BinsOf(pass.options().scan == Scan::kOptimal
                             ? OptimalSplit(view, pass.padded_limits(), count)
                             : HalveRuns({&view, 1}, cuts, count));
  }
  if (sorted.size() > kMaxSearchedItems) return std::nullopt;
  // The widest first: what is left is ever easier to place.
  std::vector<uint32_t> order(sorted.size());
  std::iota(order.rbegin(), order.rend(), 0u);
  const std::optional<Bins> found =
      SearchBins(order, count, PaddedRoom(view, pass.padded_limits()), kMaxSteps);
  if (!found) return std::nullopt;
  return HalveCostliest(sorted.BinsOf(*found), count, items);
}

}  // namespace batchplan
