#include "server/planner/assign/sorted_items.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace batchplan {

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

}  // namespace batchplan
