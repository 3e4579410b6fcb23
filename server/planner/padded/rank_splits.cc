#include "server/planner/padded/rank_splits.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

namespace batchplan {
namespace {

// What looking at the cost of one run costs.
constexpr uint64_t kTicksARunCost = 2;

// Descending.
std::vector<uint64_t> SortedRunCosts(const RankSplit& rank) {
  std::vector<uint64_t> costs = RunCosts(rank.items, rank.costs, rank.cuts);
  std::sort(costs.begin(), costs.end(), std::greater<>());
  return costs;
}

class RankCutMover {
 public:
  RankCutMover(const PaddedLimits& limits, uint64_t& steps, std::span<RankSplit> ranks,
               const Allowance& allowance)
      : limits_(limits), steps_(steps), ranks_(ranks), allowance_(allowance) {
    for (const RankSplit& rank : ranks) {
      slots_ = std::max(slots_, rank.cuts.size() - 1);
      descending_.push_back(SortedRunCosts(rank));
      std::vector<uint64_t>& counts = counts_.emplace_back(1, 0);
      for (uint32_t i = 0; i < rank.items.size(); ++i) {
        counts.push_back(counts.back() + rank.items.count(i));
      }
    }
  }

  void Run() {
    for (bool improved = true; improved && steps_ > 0;) {
      improved = false;
      for (size_t rank = 0; rank < ranks_.size() && steps_ > 0; ++rank) {
        if (allowance_.stop_requested()) steps_ = 0;
        improved = ImproveRank(rank) || improved;
      }
    }
  }

 private:
  // The costliest run of each slot on the other ranks.
  void LookAtOthers(size_t rank) {
    others_.assign(slots_, 0);
    for (size_t other = 0; other < ranks_.size(); ++other) {
      if (other == rank) continue;
      const std::vector<uint64_t>& costs = descending_[other];
      for (size_t slot = 0; slot < costs.size(); ++slot) {
        others_[slot] = std::max(others_[slot], costs[slot]);
      }
    }
    UseSteps(slots_ * ranks_.size());
  }

  void UseSteps(uint64_t steps) { steps_ -= std::min(steps_, steps); }

  // By how much the rank's runs are above those beside them.
  uint64_t Excess(const std::vector<uint64_t>& costs) const {
    uint64_t excess = 0;
    for (size_t slot = 0; slot < costs.size(); ++slot) {
      if (costs[slot] > others_[slot]) excess += costs[slot] - others_[slot];
    }
    return excess;
  }

  bool ImproveRank(size_t rank) {
    LookAtOthers(rank);
    excess_ = Excess(descending_[rank]);
    bool improved = false;
    // The widest runs matter most.
    for (size_t cut = ranks_[rank].cuts.size() - 1; cut-- > 1 && steps_ > 0 && excess_ > 0;) {
      const uint32_t low = ranks_[rank].cuts[cut - 1];
      const uint32_t high = ranks_[rank].cuts[cut + 1];
      for (uint32_t stride = (high - low) / 2; stride > 0; stride /= 2) {
        const uint32_t at = ranks_[rank].cuts[cut];
        if ((at - low > stride && Try(rank, cut, at - stride)) ||
            (high - at > stride && Try(rank, cut, at + stride))) {
          improved = true;
        }
      }
    }
    return improved;
  }

  bool Fits(size_t rank, uint32_t begin, uint32_t end) const {
    return limits_.Allow(counts_[rank][end] - counts_[rank][begin],
                         ranks_[rank].items.widths[end - 1]);
  }

  uint64_t CostOf(size_t rank, uint32_t begin, uint32_t end) const {
    return (counts_[rank][end] - counts_[rank][begin]) * ranks_[rank].costs[end - 1];
  }

  bool Try(size_t rank, size_t cut, uint32_t at) {
    Cuts& cuts = ranks_[rank].cuts;
    const uint32_t begin = cuts[cut - 1];
    const uint32_t end = cuts[cut + 1];
    if (!Fits(rank, begin, at) || !Fits(rank, at, end)) return false;
    std::vector<uint64_t>& costs = descending_[rank];
    UseSteps(costs.size());
    changed_ = costs;
    Replace(CostOf(rank, begin, cuts[cut]), CostOf(rank, begin, at));
    Replace(CostOf(rank, cuts[cut], end), CostOf(rank, at, end));
    const uint64_t excess = Excess(changed_);
    if (excess >= excess_) return false;
    excess_ = excess;
    cuts[cut] = at;
    costs.swap(changed_);
    return true;
  }

  // One of the descending costs in `changed_` by another.
  void Replace(uint64_t before, uint64_t after) {
    auto from = std::lower_bound(changed_.begin(), changed_.end(), before, std::greater<>());
    const auto to = std::lower_bound(changed_.begin(), changed_.end(), after, std::greater<>());
    if (to <= from) {
      std::rotate(to, from, from + 1);
      *to = after;
    } else {
      std::rotate(from, from + 1, to);
      *(to - 1) = after;
    }
  }

  const PaddedLimits& limits_;
  uint64_t& steps_;
  const std::span<RankSplit> ranks_;
  const Allowance& allowance_;
  size_t slots_ = 0;
  std::vector<std::vector<uint64_t>> descending_;  // costs of each rank's runs
  std::vector<std::vector<uint64_t>> counts_;      // sequences before each position, by rank
  std::vector<uint64_t> others_;
  std::vector<uint64_t> changed_;
  uint64_t excess_ = 0;  // of the rank that is looked at
};

}  // namespace

uint64_t LockstepCost(std::span<const RankSplit> ranks) {
  std::vector<uint64_t> slots;
  for (const RankSplit& rank : ranks) {
    const std::vector<uint64_t> costs = SortedRunCosts(rank);
    if (slots.size() < costs.size()) slots.resize(costs.size(), 0);
    for (size_t slot = 0; slot < costs.size(); ++slot) {
      slots[slot] = std::max(slots[slot], costs[slot]);
    }
  }
  uint64_t sum = 0;
  for (const uint64_t slot : slots) sum += slot;
  return sum;
}

void ImproveRankSlots(const PaddedLimits& limits, uint64_t steps, std::span<RankSplit> ranks,
                      const Allowance& allowance) {
  SearchSteps search(allowance, steps, kTicksARunCost);
  RankCutMover(limits, search.left, ranks, allowance).Run();
}

}  // namespace batchplan
