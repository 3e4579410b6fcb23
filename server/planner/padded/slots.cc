#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "server/planner/padded/movable_cuts.h"
#include "server/planner/padded/splits.h"

namespace batchplan {
namespace {

// Ticks to look at the cost of one run.
constexpr uint64_t kTicksAStep = 2;

// By descending cost, every `ranks` runs are a slot, which runs as long as its first run.
uint64_t SumOfSlots(std::span<const uint64_t> descending, uint32_t ranks) {
  uint64_t sum = 0;
  for (size_t run = 0; run < descending.size(); run += ranks) sum += descending[run];
  return sum;
}

class SlotImprover {
 public:
  SlotImprover(MovableCuts cuts, uint32_t ranks, uint64_t& steps, const Allowance& allowance)
      : cuts_(std::move(cuts)),
        ranks_(ranks),
        steps_(steps),
        allowance_(allowance),
        descending_(cuts_.DescendingRunCosts()),
        sum_(SumOfSlots(descending_, ranks)) {}

  Cuts Run() {
    for (bool improved = true; improved && steps_ > 0;) {
      improved = false;
      // The widest runs matter most.
      for (size_t cut = cuts_.cuts().size() - 2; cut > 0 && steps_ > 0; --cut) {
        if (allowance_.stop_requested()) steps_ = 0;
        improved |= cuts_.Move(cut, [this](const CostsAtCut& before, const CostsAtCut& after) {
          return Accept(before, after);
        });
      }
    }
    return cuts_.Take();
  }

 private:
  using TwoCosts = std::array<uint64_t, 2>;

  static TwoCosts Descending(const CostsAtCut& costs) {
    return {std::max(costs.left, costs.right), std::min(costs.left, costs.right)};
  }

  bool Accept(const CostsAtCut& old_costs, const CostsAtCut& new_costs) {
    const TwoCosts before = Descending(old_costs);
    const TwoCosts after = Descending(new_costs);
    if (after[0] >= before[0] && after[1] >= before[1]) return false;
    Replace(before, after);
    const uint64_t sum = SumOfSlots(changed_, ranks_);
    if (sum >= sum_) return false;
    sum_ = sum;
    descending_.swap(changed_);
    return true;
  }

  // Leaves all costs, two of them replaced, in `changed_`.
  void Replace(const TwoCosts& before, const TwoCosts& after) {
    steps_ -= std::min<uint64_t>(steps_, descending_.size());
    changed_.clear();
    size_t removed = 0;
    size_t added = 0;
    for (const uint64_t cost : descending_) {
      if (removed < 2 && cost == before[removed]) {
        ++removed;
        continue;
      }
      while (added < 2 && after[added] >= cost) changed_.push_back(after[added++]);
      changed_.push_back(cost);
    }
    while (added < 2) changed_.push_back(after[added++]);
  }

  MovableCuts cuts_;
  const uint32_t ranks_;
  uint64_t& steps_;
  const Allowance& allowance_;
  std::vector<uint64_t> descending_;  // costs of the runs
  std::vector<uint64_t> changed_;     // and after the move that is tried
  uint64_t sum_;
};

}  // namespace

uint64_t LockstepCost(std::span<const uint64_t> run_costs, uint32_t ranks) {
  std::vector<uint64_t> descending(run_costs.begin(), run_costs.end());
  std::sort(descending.begin(), descending.end(), std::greater<>());
  return SumOfSlots(descending, ranks);
}

Cuts ImproveSlots(const PaddedItems& items, std::span<const uint64_t> costs,
                  const PaddedLimits& limits, uint32_t ranks, Cuts cuts, uint64_t steps,
                  const Allowance& allowance) {
  if (cuts.size() <= 2) return cuts;
  SearchSteps search(allowance, steps, kTicksAStep);
  return SlotImprover(MovableCuts(items, costs, limits, std::move(cuts)), ranks, search.left,
                      allowance)
      .Run();
}

}  // namespace batchplan
