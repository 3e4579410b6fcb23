#include "tests/support/best_step_time.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace batchplan::testing {
namespace {

class Partitions {
 public:
  // Into exactly `bins` bins, or any number if that is 0.
  Partitions(const PackItems& items, const BinLimits& limits, uint32_t ranks, size_t bins)
      : items_(items), limits_(limits), ranks_(ranks), wanted_(bins) {}

  uint64_t Best() {
    Place(0);
    return best_;
  }

 private:
  struct Bin {
    uint64_t tokens = 0;
    uint64_t sequences = 0;
    uint64_t cost = 0;
  };

  // Puts the items from `item` on into open bins or a new one.
  void Place(uint32_t item) {
    if (item == items_.size()) {
      if (wanted_ == 0 || bins_.size() == wanted_) best_ = std::min(best_, Dealt());
      return;
    }
    for (size_t bin = 0; bin <= bins_.size(); ++bin) {
      const Bin before = bin < bins_.size() ? bins_[bin] : Bin();
      const Bin after = {.tokens = before.tokens + items_.lengths[item],
                         .sequences = before.sequences + items_.count(item),
                         .cost = before.cost + items_.loads[item]};
      if (after.tokens > limits_.capacity || after.sequences > limits_.max_sequences) continue;
      if (bin == bins_.size()) {
        bins_.push_back(after);
        Place(item + 1);
        bins_.pop_back();
        return;
      }
      bins_[bin] = after;
      Place(item + 1);
      bins_[bin] = before;
    }
  }

  uint64_t Dealt() const {
    std::vector<uint64_t> costs;
    for (const Bin& bin : bins_) costs.push_back(bin.cost);
    std::sort(costs.begin(), costs.end(), std::greater<>());
    uint64_t sum = 0;
    for (size_t first = 0; first < costs.size(); first += ranks_) sum += costs[first];
    return sum;
  }

  const PackItems& items_;
  const BinLimits& limits_;
  const uint32_t ranks_;
  const size_t wanted_;
  std::vector<Bin> bins_;
  uint64_t best_ = std::numeric_limits<uint64_t>::max();
};

// Combines the partitions of all ranks' items.
class RankPartitions {
 public:
  RankPartitions(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                 std::span<const uint32_t> rank_of, bool equal_counts)
      : items_(items),
        limits_(limits),
        rank_of_(rank_of),
        equal_counts_(equal_counts),
        bins_(ranks) {}

  uint64_t Best() {
    Place(0);
    return best_;
  }

 private:
  struct Bin {
    uint64_t tokens = 0;
    uint64_t sequences = 0;
    uint64_t cost = 0;
  };

  void Place(uint32_t item) {
    if (item == items_.size()) {
      if (!equal_counts_ || HasEqualCounts()) best_ = std::min(best_, StepTime());
      return;
    }
    std::vector<Bin>& own = bins_[rank_of_[item]];
    own.emplace_back();
    for (size_t bin = own.size(); bin-- > 0;) {
      const Bin before = own[bin];
      own[bin] = {.tokens = before.tokens + items_.lengths[item],
                  .sequences = before.sequences + items_.count(item),
                  .cost = before.cost + items_.loads[item]};
      if (own[bin].tokens <= limits_.capacity && own[bin].sequences <= limits_.max_sequences) {
        Place(item + 1);
      }
      own[bin] = before;
      // Removes the new bin, which is tried first.
      if (bin + 1 == own.size() && before.tokens == 0) own.pop_back();
    }
  }

  bool HasEqualCounts() const {
    return std::ranges::all_of(
        bins_, [&](const std::vector<Bin>& own) { return own.size() == bins_[0].size(); });
  }

  uint64_t StepTime() const {
    std::vector<uint64_t> slots;
    for (const std::vector<Bin>& own : bins_) {
      std::vector<uint64_t> costs;
      for (const Bin& bin : own) costs.push_back(bin.cost);
      std::sort(costs.begin(), costs.end(), std::greater<>());
      if (slots.size() < costs.size()) slots.resize(costs.size(), 0);
      for (size_t slot = 0; slot < costs.size(); ++slot) {
        slots[slot] = std::max(slots[slot], costs[slot]);
      }
    }
    return std::accumulate(slots.begin(), slots.end(), uint64_t{0});
  }

  const PackItems& items_;
  const BinLimits& limits_;
  const std::span<const uint32_t> rank_of_;
  const bool equal_counts_;
  std::vector<std::vector<Bin>> bins_;  // of each rank
  uint64_t best_ = std::numeric_limits<uint64_t>::max();
};

uint64_t BestOfRest(const PackItems& items, size_t item, std::vector<uint64_t>& ranks) {
  if (item == items.size()) return *std::max_element(ranks.begin(), ranks.end());
  uint64_t best = std::numeric_limits<uint64_t>::max();
  for (uint64_t& rank : ranks) {
    rank += items.loads[item];
    best = std::min(best, BestOfRest(items, item + 1, ranks));
    rank -= items.loads[item];
  }
  return best;
}

}  // namespace

uint64_t BestLockstep(const PackItems& items, const BinLimits& limits, uint32_t ranks) {
  return Partitions(items, limits, ranks, 0).Best();
}

uint64_t BestLockstep(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                      size_t microbatches) {
  return Partitions(items, limits, ranks, microbatches).Best();
}

uint64_t BestLockstepOfRanks(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                             std::span<const uint32_t> rank_of, bool equal_counts) {
  return RankPartitions(items, limits, ranks, rank_of, equal_counts).Best();
}

uint64_t BestAccumulated(const PackItems& items, uint32_t ranks) {
  std::vector<uint64_t> costs(ranks, 0);
  return BestOfRest(items, 0, costs);
}

}  // namespace batchplan::testing
