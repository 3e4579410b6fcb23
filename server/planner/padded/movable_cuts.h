// A split whose cuts are moved one at a time, for slots.cc and rank_splits.cc.

#ifndef BATCHPLAN_SERVER_PLANNER_PADDED_MOVABLE_CUTS_H_
#define BATCHPLAN_SERVER_PLANNER_PADDED_MOVABLE_CUTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/padded/splits.h"

namespace batchplan {

// The costs of the two runs at a cut.
struct CostsAtCut {
  uint64_t left = 0;
  uint64_t right = 0;
};

// Views items, costs (as for LevelSplit) and limits.
class MovableCuts {
 public:
  MovableCuts(const PaddedItems& items, std::span<const uint64_t> costs, const PaddedLimits& limits,
              Cuts cuts)
      : items_(items), costs_(costs), limits_(limits), cuts_(std::move(cuts)), counts_(1, 0) {
    for (uint32_t i = 0; i < items.size(); ++i) counts_.push_back(counts_.back() + items.count(i));
  }

  const Cuts& cuts() const { return cuts_; }
  Cuts Take() { return std::move(cuts_); }

  std::vector<uint64_t> DescendingRunCosts() const {
    std::vector<uint64_t> descending = RunCosts(items_, costs_, cuts_);
    std::sort(descending.begin(), descending.end(), std::greater<>());
    return descending;
  }

  // Moves cut number `cut`, which is neither the first nor the last, to either side by strides that
  // shrink to one item, within the limits, wherever accept(before, after) is true of the costs at
  // the cut. Whether it moved.
  template <typename Accept>
  bool Move(size_t cut, Accept accept) {
    bool moved = false;
    const uint32_t low = cuts_[cut - 1];
    const uint32_t high = cuts_[cut + 1];
    const auto try_at = [&](uint32_t at) {
      if (!Fits(low, at) || !Fits(at, high)) return false;
      if (!accept(CostsAt(low, cuts_[cut], high), CostsAt(low, at, high))) return false;
      cuts_[cut] = at;
      return true;
    };
    for (uint32_t stride = (high - low) / 2; stride > 0; stride /= 2) {
      const uint32_t at = cuts_[cut];
      moved |=
          (at - low > stride && try_at(at - stride)) || (high - at > stride && try_at(at + stride));
    }
    return moved;
  }

 private:
  bool Fits(uint32_t begin, uint32_t end) const {
    return limits_.Allow(counts_[end] - counts_[begin], items_.widths[end - 1]) &&
           items_.LoadsAllow(begin, end);
  }
  uint64_t CostOf(uint32_t begin, uint32_t end) const {
    return (counts_[end] - counts_[begin]) * costs_[end - 1];
  }
  CostsAtCut CostsAt(uint32_t begin, uint32_t cut, uint32_t end) const {
    return {.left = CostOf(begin, cut), .right = CostOf(cut, end)};
  }

  PaddedItems items_;
  std::span<const uint64_t> costs_;
  PaddedLimits limits_;
  Cuts cuts_;
  std::vector<uint64_t> counts_;  // sequences before each position
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_MOVABLE_CUTS_H_
