#include "server/planner/assign/padded_fill.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/planner/assign/split_bins.h"
#include "server/planner/packing/bin_search.h"
#include "server/planner/padded/splits.h"

namespace batchplan {
namespace {

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

size_t DraftPadded(const PassInstance& pass, const SortedItems& items) {
  return SortedScan(items.view(), pass.padded_limits()).size() - 1;
}

std::optional<Bins> SettlePadded(const PassInstance& pass, const Items& items,
                                 const SortedItems& sorted, size_t count,
                                 const Allowance& allowance) {
  const PaddedItems view = sorted.view();
  const Cuts cuts = SortedScan(view, pass.padded_limits());
  if (cuts.size() - 1 <= count) {
    return sorted.BinsOf(pass.options().scan == Scan::kOptimal
                             ? OptimalSplit(view, pass.padded_limits(), count, allowance)
                             : HalveRuns({&view, 1}, cuts, count));
  }
  // Of single sequences no split has fewer.
  if (view.counts.empty() || sorted.size() > kMaxSearchedItems) return std::nullopt;
  // The widest first: what is left is ever easier to place.
  std::vector<uint32_t> order(sorted.size());
  std::iota(order.rbegin(), order.rend(), 0u);
  SearchSteps search(allowance, kMaxSearchSteps, kUnitsASearchStep);
  const std::optional<Bins> found =
      SearchBins(order, count, PaddedRoom(view, pass.padded_limits()), search.left);
  if (!found) return std::nullopt;
  return HalveCostliest(sorted.BinsOf(*found), count, items);
}

}  // namespace batchplan
