#include <algorithm>
#include <cstddef>
#include <queue>
#include <tuple>

#include "server/planner/padded/splits.h"

namespace batchplan {
namespace {

// Ticks to find the end of one run.
constexpr uint64_t kTicksARun = 10;

class LevelSplitter {
 public:
  LevelSplitter(const PaddedItems& items, std::span<const uint64_t> costs,
                const PaddedLimits& limits)
      : items_(items),
        costs_(costs),
        limits_(limits),
        size_(static_cast<uint32_t>(items.size())),
        counts_(items.size() + 1, 0) {
    for (uint32_t i = 0; i < items.size(); ++i) counts_[i + 1] = counts_[i] + items.count(i);
    if (!items.loads.empty()) reach_ = ReachOfLoads(items);
  }

  // The least level at which the items can be split into at most `runs` runs. REQUIRES: the limits
  // allow that at some level.
  uint64_t LeastLevel(size_t runs, const Allowance& allowance) const {
    uint64_t low = 0;
    uint64_t high = counts_.back() * *std::ranges::max_element(costs_);
    while (low < high && !allowance.stop_requested()) {
      const uint64_t middle = low + (high - low) / 2;
      allowance.Spend(kTicksARun * runs);
      if (Suffice(runs, middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return high;
  }

  // Exactly `runs` runs, none costlier than `level`. REQUIRES: that many runs are enough for it.
  Cuts Split(size_t runs, uint64_t level) const {
    // The costliest first, of equal ones the foremost.
    struct Run {
      uint64_t cost;
      uint32_t begin;
      uint32_t end;
      bool operator<(const Run& other) const {
        return std::tuple(cost, other.begin) < std::tuple(other.cost, begin);
      }
    };
    Cuts cuts = {0};
    std::priority_queue<Run> costliest;
    const auto offer = [&](uint32_t from, uint32_t to) {
      if (to - from > 1) costliest.push({CostOf(from, to), from, to});
    };
    for (uint32_t from = 0; from < size_; from = cuts.back()) {
      cuts.push_back(FurthestEnd(from, level));
      offer(from, cuts.back());
    }
    while (cuts.size() <= runs) {
      const Run run = costliest.top();
      costliest.pop();
      const uint32_t middle = run.begin + (run.end - run.begin) / 2;
      cuts.push_back(middle);
      offer(run.begin, middle);
      offer(middle, run.end);
    }
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }

 private:
  uint64_t CostOf(uint32_t begin, uint32_t end) const {
    return (counts_[end] - counts_[begin]) * costs_[end - 1];
  }

  bool Fits(uint32_t begin, uint32_t end, uint64_t level) const {
    return CostOf(begin, end) <= level &&
           limits_.Allow(counts_[end] - counts_[begin], items_.widths[end - 1]);
  }

  // The furthest end of a run that begins at `begin`; `begin` itself if not one item fits. In
  // growing strides, then by bisection.
  uint32_t FurthestEnd(uint32_t begin, uint64_t level) const {
    uint32_t fits = begin;
    uint32_t stride = 1;
    const uint32_t last = reach_.empty() ? size_ : reach_[begin];
    while (stride <= last - fits && Fits(begin, fits + stride, level)) {
      fits += stride;
      stride *= 2;
    }
    // No end from `fails` on fits.
    uint32_t fails = stride <= last - fits ? fits + stride : last + 1;
    while (fits + 1 < fails) {
      const uint32_t middle = fits + (fails - fits) / 2;
      if (Fits(begin, middle, level)) {
        fits = middle;
      } else {
        fails = middle;
      }
    }
    return fits;
  }

  bool Suffice(size_t runs, uint64_t level) const {
    uint32_t begin = 0;
    for (; runs > 0 && begin < size_; --runs) {
      const uint32_t end = FurthestEnd(begin, level);
      if (end == begin) return false;
      begin = end;
    }
    return begin == size_;
  }

  const PaddedItems& items_;
  const std::span<const uint64_t> costs_;
  const PaddedLimits& limits_;
  const uint32_t size_;
  std::vector<uint64_t> counts_;  // sequences before each position
  std::vector<uint32_t> reach_;   // the furthest end by limited loads; empty: no limits
};

}  // namespace

Cuts LevelSplit(const PaddedItems& items, std::span<const uint64_t> costs,
                const PaddedLimits& limits, size_t runs, const Allowance& allowance) {
  if (items.size() == 0) return {0};
  const LevelSplitter splitter(items, costs, limits);
  return splitter.Split(runs, splitter.LeastLevel(runs, allowance));
}

std::vector<uint64_t> RunCosts(const PaddedItems& items, std::span<const uint64_t> costs,
                               const Cuts& cuts) {
  std::vector<uint64_t> run_costs;
  for (size_t run = 0; run + 1 < cuts.size(); ++run) {
    uint64_t sequences = 0;
    for (uint32_t i = cuts[run]; i < cuts[run + 1]; ++i) sequences += items.count(i);
    run_costs.push_back(sequences * costs[cuts[run + 1] - 1]);
  }
  return run_costs;
}

}  // namespace batchplan
