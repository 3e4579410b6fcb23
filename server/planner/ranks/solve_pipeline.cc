// How many micro-batches a pipeline should have.
//
// More of them fill the pipeline better, and each has its fixed cost. Numbers from the fewest to
// several times that, an eighth apart, are compared by the time of a mean rank whose work could be
// divided at will, except its large items: mirror descent finds those costs (profile.h). The most
// promising numbers are solved with little effort (balance.h), and the best of them again with the
// effort of the request.

#include "server/planner/ranks/solve_pipeline.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "server/planner/lanes/balance.h"
#include "server/planner/packing/orders.h"
#include "server/planner/ranks/more_slots.h"
#include "server/planner/time/profile.h"

namespace batchplan {
namespace {

// Simulations of a profile, to compare numbers by.
constexpr int kSimulations = 40;
// Items that cost more than this part of the costliest micro-batch are looked at by themselves.
constexpr double kLargePart = 0.7;

// The simulations of a solution, about, and for each rank. If the allowance does not afford them,
// none is looked for.
constexpr uint64_t kSimulationsToSolve = 800;
constexpr uint64_t kSimulationsARank = 100;

// How many numbers are solved.
size_t Tries(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return 1;
    case Effort::kThorough:
      return 6;
    default:
      return 3;
  }
}

// Ticks to solve for one number of micro-batches.
uint64_t TicksToSolve(const Pass& pass, uint64_t slots) {
  const uint64_t works = 2 * slots * pass.pipeline()->virtual_stages();
  return kTicksAWork * works * (kSimulationsToSolve + kSimulationsARank * pass.ranks());
}

class NumberSearch {
 public:
  NumberSearch(const Pass& pass, const PackItems& items, double per_microbatch,
               const Allowance& allowance)
      : pass_(pass), fixed_(per_microbatch), allowance_(allowance), ranks_(pass.ranks()) {
    uint64_t tokens = 0;
    for (uint32_t item = 0; item < items.size(); ++item) {
      total_ += static_cast<double>(items.loads[item]);
      tokens += items.lengths[item];
    }
    most_ = pass.bin_limits().capacity * total_ / static_cast<double>(tokens);
    for (const uint32_t item : DescendingOrder(items.loads)) {
      descending_.push_back(static_cast<double>(items.loads[item]));
    }
  }

  // The most promising numbers, the best first.
  std::vector<uint64_t> Run(uint64_t fewest, uint64_t most, size_t wanted) const {
    std::vector<std::pair<double, uint64_t>> numbers;
    double best = 0;
    for (const uint64_t slots : SlotsOnPipelines(pass_.counts(), *pass_.pipeline(), fewest, most)) {
      if (allowance_.stop_requested()) return {};
      if (allowance_.left() < TicksToSolve(pass_, slots)) break;
      const double makespan = Makespan(static_cast<uint32_t>(slots));
      numbers.emplace_back(makespan, slots);
      if (best == 0 || makespan < best) best = makespan;
      if (makespan > kFarFromBest * best) break;
    }
    std::stable_sort(numbers.begin(), numbers.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<uint64_t> found;
    for (const auto& [makespan, slots] : numbers) {
      if (found.size() < wanted) found.push_back(slots);
    }
    return found;
  }

 private:
  // The estimated time of a mean rank with this many micro-batches and an average part of the large
  // items.
  double Makespan(uint32_t slots) const {
    PipelineSimulator simulator(*pass_.pipeline(), slots, PipelineSimulator::Mode::kTrace,
                                allowance_);
    const double mean = total_ / ranks_;
    const Profile free =
        FindProfile(simulator, {.total = mean, .fixed = fixed_, .most = most_}, kSimulations / 2);
    std::vector<uint32_t> by_cost(slots);
    std::iota(by_cost.begin(), by_cost.end(), 0u);
    std::stable_sort(by_cost.begin(), by_cost.end(),
                     [&](uint32_t a, uint32_t b) { return free.costs[a] > free.costs[b]; });
    const double large = kLargePart * free.costs[by_cost.front()];
    std::vector<double> least(slots, 0);
    for (size_t i = 0; i < descending_.size() && i / ranks_ < slots && descending_[i] > large;
         ++i) {
      least[by_cost[i / ranks_]] += descending_[i] / ranks_;
    }
    least[by_cost.front()] = std::max(least[by_cost.front()], large > 0 ? Costliest(large) : 0);
    const Profile profile = FindProfile(
        simulator,
        {.total = mean, .fixed = fixed_, .least = least, .most = most_, .start = free.costs},
        kSimulations);
    allowance_.Spend(simulator.ticks());
    return profile.makespan;
  }

  // The mean over ranks of the costliest large item.
  double Costliest(double large) const {
    double sum = 0;
    size_t count = 0;
    for (; count < ranks_ && count < descending_.size() && descending_[count] > large; ++count) {
      sum += descending_[count];
    }
    return count == 0 ? 0 : sum / static_cast<double>(count);
  }

  const Pass& pass_;
  const double fixed_;
  const Allowance& allowance_;
  const uint32_t ranks_;
  double total_ = 0;
  double most_ = 0;  // of a full micro-batch
  std::vector<double> descending_;
};

}  // namespace

std::optional<Bins> SolveOnPipelines(const Pass& pass, const PackItems& items,
                                     double per_microbatch, std::span<const uint32_t> rank_of,
                                     uint64_t fewest, uint64_t most,
                                     const std::function<void(const PipelineBins&)>& solved,
                                     const Allowance& allowance) {
  const bool has_cost =
      std::any_of(items.loads.begin(), items.loads.end(), [](uint64_t load) { return load > 0; });
  if (!has_cost || allowance.left() < TicksToSolve(pass, fewest)) return std::nullopt;
  PipelineTask task = {
      .items = items,
      .limits = pass.bin_limits(),
      .ranks = pass.ranks(),
      .pipeline = *pass.pipeline(),
      .fixed = per_microbatch,
      .lockstep = pass.synchronization() == Synchronization::kLockstep,
      .rank_of = rank_of,
      .equal_counts = pass.options().keeps_counts() && rank_of.empty(),
      .effort = pass.effort() == Effort::kThorough ? Effort::kDefault : Effort::kFast,
      .allowance = allowance};
  std::optional<PipelineBins> best;
  for (const uint64_t slots : NumberSearch(pass, items, per_microbatch, allowance)
                                  .Run(fewest, most, Tries(pass.effort()))) {
    if (allowance.stop_requested()) return std::nullopt;
    if (best && allowance.spent()) break;
    task.slots = static_cast<uint32_t>(slots);
    std::optional<PipelineBins> found = BalancePipeline(task);
    if (found) solved(*found);
    if (found && (!best || found->makespan < best->makespan)) best = std::move(found);
  }
  if (best && pass.effort() != Effort::kFast && !allowance.spent()) {
    task.slots = static_cast<uint32_t>(best->bins.size() / task.ranks);
    task.effort = pass.effort();
    best = BalancePipeline(task, &best->bins);
  }
  if (!best || allowance.stop_requested()) return std::nullopt;
  return std::move(best->bins);
}

}  // namespace batchplan
