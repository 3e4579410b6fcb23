#include "server/planner/padded/rank_splits.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "server/planner/padded/movable_cuts.h"

namespace batchplan {
namespace {

// Ticks to look at the cost of one run.
constexpr uint64_t kTicksARunCost = 2;

class RankSlotImprover {
 public:
  RankSlotImprover(const PaddedLimits& limits, uint64_t& steps, std::span<RankSplit> ranks,
                   const Allowance& allowance)
      : steps_(steps), ranks_(ranks), allowance_(allowance) {
    for (const RankSplit& rank : ranks) {
      cuts_.emplace_back(rank.items, rank.costs, limits, rank.cuts);
      descending_.push_back(cuts_.back().DescendingRunCosts());
      slots_ = std::max(slots_, descending_.back().size());
    }
  }

  void Run() {
    for (bool improved = true; improved && steps_ > 0;) {
      improved = false;
      for (size_t rank = 0; rank < ranks_.size() && steps_ > 0; ++rank) {
        if (allowance_.stop_requested()) steps_ = 0;
        improved |= ImproveRank(rank);
      }
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].cuts = cuts_[rank].Take();
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

  // By how much the rank's runs exceed the costliest of their slots on other ranks.
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
    for (size_t cut = cuts_[rank].cuts().size() - 1; cut-- > 1 && steps_ > 0 && excess_ > 0;) {
      improved |= cuts_[rank].Move(cut, [&](const CostsAtCut& before, const CostsAtCut& after) {
        return Accept(before, after, descending_[rank]);
      });
    }
    return improved;
  }

  bool Accept(const CostsAtCut& before, const CostsAtCut& after, std::vector<uint64_t>& costs) {
    UseSteps(costs.size());
    changed_ = costs;
    Replace(before.left, after.left);
    Replace(before.right, after.right);
    const uint64_t excess = Excess(changed_);
    if (excess >= excess_) return false;
    excess_ = excess;
    costs.swap(changed_);
    return true;
  }

  // Replaces one of the descending costs in `changed_`.
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

  uint64_t& steps_;
  const std::span<RankSplit> ranks_;
  const Allowance& allowance_;
  size_t slots_ = 0;
  std::vector<MovableCuts> cuts_;                  // of each rank
  std::vector<std::vector<uint64_t>> descending_;  // costs of each rank's runs
  std::vector<uint64_t> others_;
  std::vector<uint64_t> changed_;
  uint64_t excess_ = 0;  // of the rank that is looked at
};

}  // namespace

uint64_t LockstepCost(std::span<const RankSplit> ranks) {
  std::vector<uint64_t> slots;
  for (const RankSplit& rank : ranks) {
    std::vector<uint64_t> costs = RunCosts(rank.items, rank.costs, rank.cuts);
    std::sort(costs.begin(), costs.end(), std::greater<>());
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
  RankSlotImprover(limits, search.left, ranks, allowance).Run();
}

}  // namespace batchplan
