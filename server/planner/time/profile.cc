#include "server/planner/time/profile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace batchplan {
namespace {

// The least cost, as a part of the mean: a smaller one would need too many multiplications to grow.
constexpr double kSmallest = 1e-3;
// The part of the makespan that a step is to save; less in later steps.
constexpr double kFirstSaving = 0.1;
constexpr double kShrinking = 0.2;
// The cost at which the first group of micro-batches begins, as a part of the mean.
constexpr double kFirstGroup = 0.4;
// Rounds of scaling to bounds and total, and the precision wanted.
constexpr int kMostScalings = 12;
constexpr double kScaled = 1e-6;

// About exp(x) for small x, between 1/3 and 3, and equal on every machine.
double Growth(double x) {
  const double half = std::clamp(x, -1.0, 1.0) / 2;
  return (1 + half) / (1 - half);
}

// Scales costs to the total, each within its bounds.
class Scaling {
 public:
  explicit Scaling(const ProfileTask& task) : task_(task) {}

  void Apply(std::vector<double>& costs) const {
    for (int round = 0; round < kMostScalings; ++round) {
      double sum = 0;
      double movable = 0;
      for (size_t k = 0; k < costs.size(); ++k) {
        costs[k] = std::clamp(costs[k], Least(k), Most(k));
        sum += costs[k];
        if (costs[k] > Least(k)) movable += costs[k];
      }
      if (std::abs(sum - task_.total) <= kScaled * task_.total) return;
      if (sum < task_.total) {
        ScaleUp(sum, costs);
      } else if (movable > 0) {
        const double factor = std::max(0.0, 1 - (sum - task_.total) / movable);
        for (size_t k = 0; k < costs.size(); ++k) {
          if (costs[k] > Least(k)) costs[k] *= factor;
        }
      } else {
        return;
      }
    }
  }

 private:
  double Least(size_t k) const { return task_.least.empty() ? 0 : task_.least[k]; }
  double Most(size_t k) const { return std::max(task_.most, Least(k)); }

  void ScaleUp(double sum, std::vector<double>& costs) const {
    double growing = 0;
    for (size_t k = 0; k < costs.size(); ++k) {
      if (costs[k] < Most(k)) growing += costs[k];
    }
    if (growing <= 0) return;
    const double factor = 1 + (task_.total - sum) / growing;
    for (size_t k = 0; k < costs.size(); ++k) {
      if (costs[k] < Most(k)) costs[k] *= factor;
    }
  }

  const ProfileTask& task_;
};

// Rises while the pipeline fills.
std::vector<double> Ramp(const Pipeline& pipeline, size_t count, double mean) {
  std::vector<double> costs(count, mean);
  const size_t filling = std::min<size_t>(pipeline.stages, count);
  for (size_t k = 0; k < filling; ++k) {
    costs[k] *= pipeline.interleaved
                    ? kFirstGroup
                    : (static_cast<double>(k) + 0.5) / static_cast<double>(pipeline.stages);
  }
  return costs;
}

// The search for one profile, a simulation at a time.
class Descent {
 public:
  Descent(const PipelineSimulator& simulator, const ProfileTask& task)
      : task_(task),
        scaling_(task_),
        mean_(task.total / simulator.microbatches()),
        costs_(task.start.begin(), task.start.end()),
        weights_(simulator.microbatches()) {
    const size_t count = simulator.microbatches();
    if (costs_.size() != count) costs_ = Ramp(simulator.pipeline(), count, mean_);
    scaling_.Apply(costs_);
  }

  // What to simulate next.
  double CostOf(size_t microbatch) const { return costs_[microbatch] + task_.fixed; }
  // The parts of the makespan, to be set for Step.
  std::span<double> weights() { return weights_; }
  // Whether nothing is left to gain.
  bool done() const { return done_; }
  Profile& best() { return best_; }

  // Takes simulation number `i`.
  void Step(int i, double makespan) {
    const double slope =
        std::inner_product(weights_.begin(), weights_.end(), costs_.begin(), 0.0) / task_.total;
    if (i == 0 || makespan < best_.makespan) {
      best_ = {.costs = costs_, .makespan = makespan, .slope = slope};
    }
    double spread = 0;
    for (size_t k = 0; k < costs_.size(); ++k) {
      spread += costs_[k] * (weights_[k] - slope) * (weights_[k] - slope);
    }
    done_ = spread <= 0;
    if (done_) return;
    // Polyak's step: as far as to the wanted makespan if it were linear.
    const double wanted = best_.makespan * (1 - kFirstSaving / (1 + kShrinking * i));
    const double step = (makespan - wanted) / spread;
    for (size_t k = 0; k < costs_.size(); ++k) {
      costs_[k] = std::max(costs_[k], kSmallest * mean_) * Growth(step * (slope - weights_[k]));
    }
    scaling_.Apply(costs_);
  }

 private:
  const ProfileTask task_;
  const Scaling scaling_;
  const double mean_;
  std::vector<double> costs_;
  std::vector<double> weights_;
  bool done_ = false;
  Profile best_;
};

// Of two to four tasks.
void FindAtOnce(PipelineSimulator& simulator, std::span<const ProfileTask> tasks, int simulations,
                std::vector<Profile>& found) {
  std::vector<Descent> descents;
  descents.reserve(tasks.size());
  std::vector<std::span<double>> weights;
  weights.reserve(tasks.size());
  for (const ProfileTask& task : tasks) {
    weights.push_back(descents.emplace_back(simulator, task).weights());
  }
  std::vector<Four> costs(simulator.microbatches());
  const auto is_done = [](const Descent& descent) { return descent.done(); };
  for (int i = 0; i < simulations || i == 0; ++i) {
    const size_t left = descents.size() - std::ranges::count_if(descents, is_done);
    if (left == 0) break;
    for (size_t k = 0; k < costs.size(); ++k) {
      for (size_t d = 0; d < descents.size(); ++d) costs[k][d] = descents[d].CostOf(k);
    }
    const Four makespans = simulator.Makespans(costs, left);
    simulator.TraceLists(weights);
    for (size_t d = 0; d < descents.size(); ++d) {
      if (!descents[d].done()) descents[d].Step(i, makespans[d]);
    }
  }
  for (Descent& descent : descents) found.push_back(std::move(descent.best()));
}

}  // namespace

Profile FindProfile(PipelineSimulator& simulator, const ProfileTask& task, int simulations) {
  Descent descent(simulator, task);
  std::vector<double> costs(simulator.microbatches());
  for (int i = 0; (i < simulations || i == 0) && !descent.done(); ++i) {
    for (size_t k = 0; k < costs.size(); ++k) costs[k] = descent.CostOf(k);
    descent.Step(i, simulator.Makespan(costs, descent.weights()));
  }
  return std::move(descent.best());
}

std::vector<Profile> FindProfiles(PipelineSimulator& simulator, std::span<const ProfileTask> tasks,
                                  int simulations) {
  std::vector<Profile> found;
  found.reserve(tasks.size());
  while (!tasks.empty()) {
    const size_t count = std::min<size_t>(tasks.size(), 4);
    if (count == 1) {
      found.push_back(FindProfile(simulator, tasks[0], simulations));
    } else {
      FindAtOnce(simulator, tasks.first(count), simulations, found);
    }
    tasks = tasks.subspan(count);
  }
  return found;
}

}  // namespace batchplan
