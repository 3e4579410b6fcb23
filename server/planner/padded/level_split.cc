#include "server/planner/padded/level_split.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

namespace batchplan {
namespace {

// Splits of ranges of the items.
class RangeSplitter {
 public:
  RangeSplitter(const PaddedItems& items, std::span<const uint64_t> costs,
                const PaddedLimits& limits)
      : items_(items), costs_(costs), limits_(limits), counts_(items.size() + 1, 0) {
    for (uint32_t i = 0; i < items.size(); ++i) counts_[i + 1] = counts_[i] + items.count(i);
  }

  uint64_t CostOf(uint32_t begin, uint32_t end) const {
    return (counts_[end] - counts_[begin]) * costs_[end - 1];
  }

  // The least level at which [begin, end) can be split into `runs` runs or fewer; nothing if the
  // limits don't allow that at any level, or there are fewer items.
  std::optional<uint64_t> LeastLevel(uint32_t begin, uint32_t end, size_t runs) const {
    if (end - begin < runs) return std::nullopt;
    uint64_t high = CostOf(begin, end);
    if (!Suffice(begin, end, runs, high)) return std::nullopt;
    uint64_t low = 0;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (Suffice(begin, end, runs, middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return high;
  }

  // Appends the ends of exactly `runs` runs of [begin, end), none costlier than `level`, at which
  // as many suffice.
  void Split(uint32_t begin, uint32_t end, size_t runs, uint64_t level, Cuts& cuts) const {
    // The costliest first, of equal ones the foremost.
    struct Run {
      uint64_t cost;
      uint32_t begin;
      uint32_t end;
      bool operator<(const Run& other) const {
        return std::tuple(cost, other.begin) < std::tuple(other.cost, begin);
      }
    };
    const size_t first = cuts.size();
    std::priority_queue<Run> costliest;
    const auto offer = [&](uint32_t from, uint32_t to) {
      if (to - from > 1) costliest.push({CostOf(from, to), from, to});
    };
    for (uint32_t from = begin; from < end; from = cuts.back()) {
      cuts.push_back(FurthestEnd(from, end, level));
      offer(from, cuts.back());
    }
    while (cuts.size() - first < runs) {
      const Run run = costliest.top();
      costliest.pop();
      const uint32_t middle = run.begin + (run.end - run.begin) / 2;
      cuts.push_back(middle);
      offer(run.begin, middle);
      offer(middle, run.end);
    }
    std::sort(cuts.begin() + static_cast<ptrdiff_t>(first), cuts.end());
  }

 private:
  bool Fits(uint32_t begin, uint32_t end, uint64_t level) const {
    return CostOf(begin, end) <= level &&
           limits_.Allow(counts_[end] - counts_[begin], items_.widths[end - 1]);
  }

  // The furthest end of a run from `begin`, `begin` itself if no item fits: in growing strides,
  // then by bisection.
  uint32_t FurthestEnd(uint32_t begin, uint32_t end, uint64_t level) const {
    uint32_t fits = begin;
    uint32_t stride = 1;
    while (stride <= end - fits && Fits(begin, fits + stride, level)) {
      fits += stride;
      stride *= 2;
    }
    // No end from `fails` on fits.
    uint32_t fails = stride <= end - fits ? fits + stride : end + 1;
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

  bool Suffice(uint32_t begin, uint32_t end, size_t runs, uint64_t level) const {
    for (; runs > 0 && begin < end; --runs) {
      const uint32_t next = FurthestEnd(begin, end, level);
      if (next == begin) return false;
      begin = next;
    }
    return begin == end;
  }

  const PaddedItems& items_;
  const std::span<const uint64_t> costs_;
  const PaddedLimits& limits_;
  std::vector<uint64_t> counts_;  // sequences before each position
};

}  // namespace

Cuts LevelSplit(const PaddedItems& items, std::span<const uint64_t> costs,
                const PaddedLimits& limits, size_t runs) {
  const RangeSplitter splitter(items, costs, limits);
  const auto size = static_cast<uint32_t>(items.size());
  Cuts cuts = {0};
  if (size > 0) splitter.Split(0, size, runs, *splitter.LeastLevel(0, size, runs), cuts);
  return cuts;
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
