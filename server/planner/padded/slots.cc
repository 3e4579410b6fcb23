#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "server/planner/padded/splits.h"

namespace batchplan {
namespace {

// What looking at the cost of one run costs.
constexpr uint64_t kTicksAStep = 2;

class CutMover {
 public:
  CutMover(const PaddedItems& items, std::span<const uint64_t> costs, const PaddedLimits& limits,
           uint32_t ranks, Cuts cuts, uint64_t& steps, const Allowance& allowance)
      : items_(items),
        costs_(costs),
        limits_(limits),
        ranks_(ranks),
        cuts_(std::move(cuts)),
        steps_(steps),
        allowance_(allowance),
        counts_(items.size() + 1, 0),
        descending_(RunCosts(items, costs, cuts_)) {
    for (uint32_t i = 0; i < items.size(); ++i) counts_[i + 1] = counts_[i] + items.count(i);
    std::sort(descending_.begin(), descending_.end(), std::greater<>());
    for (size_t run = 0; run < descending_.size(); run += ranks) sum_ += descending_[run];
  }

  Cuts Run() {
    for (bool improved = true; improved && steps_ > 0;) {
      improved = false;
      // The widest runs matter most.
      for (size_t cut = cuts_.size() - 2; cut > 0 && steps_ > 0; --cut) {
        if (allowance_.stop_requested()) steps_ = 0;
        improved = ImproveCut(cut) || improved;
      }
    }
    return std::move(cuts_);
  }

 private:
  using TwoCosts = std::array<uint64_t, 2>;

  bool ImproveCut(size_t cut) {
    bool improved = false;
    const uint32_t low = cuts_[cut - 1];
    const uint32_t high = cuts_[cut + 1];
    for (uint32_t stride = (high - low) / 2; stride > 0; stride /= 2) {
      const uint32_t at = cuts_[cut];
      if ((at - low > stride && Try(cut, at - stride)) ||
          (high - at > stride && Try(cut, at + stride))) {
        improved = true;
      }
    }
    return improved;
  }

  bool Try(size_t cut, uint32_t at) {
    const uint32_t begin = cuts_[cut - 1];
    const uint32_t end = cuts_[cut + 1];
    if (!Fits(begin, at) || !Fits(at, end)) return false;
    const TwoCosts before = CostsAround(begin, cuts_[cut], end);
    const TwoCosts after = CostsAround(begin, at, end);
    if (after[0] >= before[0] && after[1] >= before[1]) return false;
    const uint64_t sum = SumWith(before, after);
    if (sum >= sum_) return false;
    sum_ = sum;
    cuts_[cut] = at;
    descending_.swap(changed_);
    return true;
  }

  bool Fits(uint32_t begin, uint32_t end) const {
    return limits_.Allow(counts_[end] - counts_[begin], items_.widths[end - 1]);
  }

  uint64_t CostOf(uint32_t begin, uint32_t end) const {
    return (counts_[end] - counts_[begin]) * costs_[end - 1];
  }

  // The costs of the two runs, the larger first.
  TwoCosts CostsAround(uint32_t begin, uint32_t cut, uint32_t end) const {
    const uint64_t a = CostOf(begin, cut);
    const uint64_t b = CostOf(cut, end);
    return {std::max(a, b), std::min(a, b)};
  }

  // The sum after two runs' costs are replaced. Leaves all costs, descending, in `changed_`.
  uint64_t SumWith(const TwoCosts& before, const TwoCosts& after) {
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
    uint64_t sum = 0;
    for (size_t run = 0; run < changed_.size(); run += ranks_) sum += changed_[run];
    return sum;
  }

  const PaddedItems& items_;
  const std::span<const uint64_t> costs_;
  const PaddedLimits& limits_;
  const uint32_t ranks_;
  Cuts cuts_;
  uint64_t& steps_;
  const Allowance& allowance_;
  std::vector<uint64_t> counts_;      // sequences before each position
  std::vector<uint64_t> descending_;  // costs of the runs
  std::vector<uint64_t> changed_;     // the same after the cut that is tried
  uint64_t sum_ = 0;
};

}  // namespace

uint64_t LockstepCost(std::span<const uint64_t> run_costs, uint32_t ranks) {
  std::vector<uint64_t> descending(run_costs.begin(), run_costs.end());
  std::sort(descending.begin(), descending.end(), std::greater<>());
  uint64_t sum = 0;
  for (size_t run = 0; run < descending.size(); run += ranks) sum += descending[run];
  return sum;
}

Cuts ImproveSlots(const PaddedItems& items, std::span<const uint64_t> costs,
                  const PaddedLimits& limits, uint32_t ranks, Cuts cuts, uint64_t steps,
                  const Allowance& allowance) {
  if (cuts.size() <= 2) return cuts;
  SearchSteps search(allowance, steps, kTicksAStep);
  return CutMover(items, costs, limits, ranks, std::move(cuts), search.left, allowance).Run();
}

}  // namespace batchplan
