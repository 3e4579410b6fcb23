#include "server/planner/lanes/targets.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>

namespace batchplan {
namespace {

// An item is large, and placed first, if it costs more than this part of the costliest target.
constexpr double kLargePart = 0.7;
// Simulations for the mean rank's profile, for each rank's in the first round, and in a later one.
constexpr int kFirstSimulations = 100;
constexpr int kSimulations = 30;
constexpr int kMoreSimulations = 15;
// How often the total is divided anew.
constexpr int kRounds = 4;
// Bisections of the time of ranks that keep costly items together.
constexpr int kBisections = 24;

// The large items of each rank, or in lockstep of all of them, costliest first.
using Division = std::vector<std::vector<uint32_t>>;

class TargetFinder {
 public:
  TargetFinder(const PipelineTask& task, std::span<const uint32_t> descending,
               PipelineSimulator& simulator)
      : task_(task), descending_(descending), simulator_(simulator) {
    uint64_t tokens = 0;
    for (uint32_t item = 0; item < task.items.size(); ++item) {
      total_ += Load(item);
      tokens += task.items.lengths[item];
    }
    mean_ = total_ / task.ranks;
    most_ = task.limits.capacity * total_ / static_cast<double>(tokens);
    base_ = FindProfile(simulator, {.total = mean_, .fixed = task.fixed, .most = most_},
                        kFirstSimulations);
    // Micro-batches by their target, the costliest first.
    by_cost_.resize(task.slots);
    std::iota(by_cost_.begin(), by_cost_.end(), 0u);
    std::stable_sort(by_cost_.begin(), by_cost_.end(),
                     [&](uint32_t a, uint32_t b) { return base_.costs[a] > base_.costs[b]; });
    const double large = kLargePart * base_.costs[by_cost_.front()];
    const size_t most_large = size_t{task.ranks} * task.slots / 2;
    while (large_ < std::min(most_large, descending.size()) && Load(descending[large_]) > large) {
      ++large_;
    }
  }

  Targets Run() {
    if (task_.lockstep) return InLockstep();
    if (!task_.rank_of.empty()) return WithRanksGiven();
    std::optional<Divided> best = Divide(Spread());
    if (large_ > task_.ranks) {
      const std::optional<Divided> together = Divide(Together());
      if (together && (!best || together->makespan < best->makespan)) best = together;
    }
    return TargetsOf(*best);
  }

 private:
  // A division of the large items and its result.
  struct Divided {
    Division large;
    std::vector<Profile> ranks;
    double makespan = 0;
  };

  double Load(uint32_t item) const { return static_cast<double>(task_.items.loads[item]); }

  // Each next item goes to the rank with least.
  Division Spread() const {
    Division division(task_.ranks);
    std::vector<double> sums(task_.ranks, 0);
    for (size_t i = 0; i < large_; ++i) {
      const size_t rank = std::min_element(sums.begin(), sums.end()) - sums.begin();
      division[rank].push_back(descending_[i]);
      sums[rank] += Load(descending_[i]);
    }
    return division;
  }

  // Fills one rank after the other up to `makespan`, estimated as if its micro-batches were as
  // alike as can be: its work, and p - 1 times the costliest.
  std::optional<Division> TogetherWithin(double makespan) const {
    Division division(task_.ranks);
    const double behind = task_.pipeline.stages - 1;
    uint32_t rank = 0;
    double sum = 0;
    for (size_t i = 0; i < large_; ++i) {
      const double load = Load(descending_[i]);
      while (true) {
        std::vector<uint32_t>& own = division[rank];
        const double costliest = own.empty() ? load : Load(own.front());
        const double work = sum + load + task_.fixed * task_.slots;
        const double takes = work + behind * std::max(costliest + task_.fixed, work / task_.slots);
        if (own.empty() || (own.size() < task_.slots && takes <= makespan * task_.pipeline.stages))
          break;
        if (++rank == task_.ranks) return std::nullopt;
        sum = 0;
      }
      division[rank].push_back(descending_[i]);
      sum += load;
    }
    return division;
  }

  Division Together() const {
    double least = base_.makespan / 2;
    double enough = base_.makespan * 16;
    std::optional<Division> best;
    for (int i = 0; i < kBisections; ++i) {
      const double makespan = std::sqrt(least * enough);
      std::optional<Division> division = TogetherWithin(makespan);
      (division ? enough : least) = makespan;
      if (division) best = std::move(division);
    }
    // With room for the other items.
    if (std::optional<Division> roomy = TogetherWithin(std::max(enough, base_.makespan * 1.02))) {
      best = std::move(roomy);
    }
    return best ? *best : Spread();
  }

  // The least costs of the slots with these items, the costliest item in the slot with the highest
  // target.
  std::vector<double> Least(std::span<const uint32_t> large) const {
    std::vector<double> least(task_.slots, 0);
    for (size_t i = 0; i < large.size(); ++i) least[by_cost_[i % task_.slots]] += Load(large[i]);
    return least;
  }

  ProfileTask TaskOf(std::span<const double> least, double total,
                     std::span<const double> start) const {
    return {.total = total, .fixed = task_.fixed, .least = least, .most = most_, .start = start};
  }

  // Divides the total among the ranks so that they are done at the same time, in rounds that take
  // the makespans as linear in it.
  std::optional<Divided> Divide(const Division& large) const {
    Divided divided{.large = large, .ranks = std::vector<Profile>(task_.ranks, base_)};
    std::vector<std::vector<double>> least;
    std::vector<double> sums(task_.ranks, 0);
    std::vector<double> totals(task_.ranks, mean_);
    for (uint32_t rank = 0; rank < task_.ranks; ++rank) {
      least.push_back(Least(large[rank]));
      for (const uint32_t item : large[rank]) sums[rank] += Load(item);
      totals[rank] = std::max(mean_, sums[rank]);
    }
    for (int round = 0;; ++round) {
      if (task_.allowance.stop_requested()) return divided;
      divided.makespan = 0;
      double of_totals = 0;
      double of_slopes = 0;
      // Ranks without large items often have the total of the one before.
      std::vector<ProfileTask> tasks;
      std::vector<size_t> task_of(task_.ranks);
      for (uint32_t rank = 0; rank < task_.ranks; ++rank) {
        const bool as_before = rank > 0 && large[rank].empty() && large[rank - 1].empty() &&
                               totals[rank] == totals[rank - 1];
        if (!as_before) {
          tasks.push_back(TaskOf(least[rank], totals[rank], divided.ranks[rank].costs));
        }
        task_of[rank] = tasks.size() - 1;
      }
      const std::vector<Profile> found =
          FindProfiles(simulator_, tasks, round == 0 ? kSimulations : kMoreSimulations);
      for (uint32_t rank = 0; rank < task_.ranks; ++rank) {
        Profile& profile = divided.ranks[rank];
        profile = found[task_of[rank]];
        divided.makespan = std::max(divided.makespan, profile.makespan);
        of_totals += profile.makespan / profile.slope - totals[rank];
        of_slopes += 1 / profile.slope;
      }
      if (round == kRounds) return divided;
      const double common = (total_ + of_totals) / of_slopes;
      double sum = 0;
      for (uint32_t rank = 0; rank < task_.ranks; ++rank) {
        const Profile& profile = divided.ranks[rank];
        totals[rank] = std::max(
            {totals[rank] + (common - profile.makespan) / profile.slope, sums[rank], mean_ * 0.05});
        sum += totals[rank];
      }
      for (double& total : totals) total *= total_ / sum;
    }
  }

  Targets TargetsOf(const Divided& divided) const {
    Targets targets;
    for (uint32_t rank = 0; rank < task_.ranks; ++rank) {
      const std::vector<double>& costs = divided.ranks[rank].costs;
      targets.costs.insert(targets.costs.end(), costs.begin(), costs.end());
      const std::vector<uint32_t>& large = divided.large[rank];
      for (size_t i = 0; i < large.size(); ++i) {
        targets.placed.emplace_back(large[i], rank * task_.slots + by_cost_[i % task_.slots]);
      }
    }
    return targets;
  }

  // The targets if ranks are given: each has its own large items and its own total.
  Targets WithRanksGiven() const {
    Divided divided{.large = Division(task_.ranks), .ranks = {}};
    std::vector<double> totals(task_.ranks, 0);
    for (uint32_t item = 0; item < task_.items.size(); ++item) {
      totals[task_.rank_of[item]] += Load(item);
    }
    for (size_t i = 0; i < large_; ++i) {
      divided.large[task_.rank_of[descending_[i]]].push_back(descending_[i]);
    }
    std::vector<std::vector<double>> least;
    std::vector<ProfileTask> tasks;
    for (const std::vector<uint32_t>& large : divided.large) least.push_back(Least(large));
    for (uint32_t rank = 0; rank < task_.ranks; ++rank) {
      tasks.push_back(TaskOf(least[rank], totals[rank], base_.costs));
    }
    divided.ranks = FindProfiles(simulator_, tasks, 2 * kSimulations);
    return TargetsOf(divided);
  }

  // Each next slot gets a large item for every rank, as these run at the same time.
  Targets InLockstep() const {
    std::vector<double> least(task_.slots, 0);
    Targets targets;
    for (size_t i = 0; i < large_; ++i) {
      const auto rank = static_cast<uint32_t>(i % task_.ranks);
      const uint32_t slot = by_cost_[i / task_.ranks];
      least[slot] = std::max(least[slot], Load(descending_[i]));
      if (task_.rank_of.empty()) {
        targets.placed.emplace_back(descending_[i], rank * task_.slots + slot);
      }
    }
    const Profile profile =
        FindProfile(simulator_, TaskOf(least, mean_, base_.costs), kFirstSimulations);
    std::vector<double> parts(task_.ranks, 1);
    if (!task_.rank_of.empty()) {
      std::fill(parts.begin(), parts.end(), 0.0);
      for (uint32_t item = 0; item < task_.items.size(); ++item) {
        parts[task_.rank_of[item]] += Load(item) / mean_;
      }
    }
    for (uint32_t rank = 0; rank < task_.ranks; ++rank) {
      for (const double cost : profile.costs) targets.costs.push_back(cost * parts[rank]);
    }
    return targets;
  }

  const PipelineTask& task_;
  const std::span<const uint32_t> descending_;
  PipelineSimulator& simulator_;
  double total_ = 0;
  double mean_ = 0;  // of a rank
  double most_ = 0;  // of a full micro-batch
  Profile base_;
  std::vector<uint32_t> by_cost_;
  size_t large_ = 0;
};

}  // namespace

Targets FindTargets(const PipelineTask& task, std::span<const uint32_t> descending,
                    PipelineSimulator& simulator) {
  return TargetFinder(task, descending, simulator).Run();
}

}  // namespace batchplan
