#include "server/planner/time/profile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

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

}  // namespace

Profile FindProfile(PipelineSimulator& simulator, const ProfileTask& task, int simulations,
                    std::span<const double> start) {
  const size_t count = simulator.microbatches();
  const double mean = task.total / static_cast<double>(count);
  std::vector<double> costs(start.begin(), start.end());
  if (costs.size() != count) costs = Ramp(simulator.pipeline(), count, mean);
  const Scaling scaling(task);
  scaling.Apply(costs);
  std::vector<double> with_fixed(count);
  std::vector<double> weights(count);
  Profile best;
  for (int i = 0; i < simulations || i == 0; ++i) {
    for (size_t k = 0; k < count; ++k) with_fixed[k] = costs[k] + task.fixed;
    const double makespan = simulator.Makespan(with_fixed, weights);
    const double slope =
        std::inner_product(weights.begin(), weights.end(), costs.begin(), 0.0) / task.total;
    if (i == 0 || makespan < best.makespan) {
      best = {.costs = costs, .makespan = makespan, .slope = slope};
    }
    double spread = 0;
    for (size_t k = 0; k < count; ++k) {
      spread += costs[k] * (weights[k] - slope) * (weights[k] - slope);
    }
    if (spread <= 0) break;
    // Polyak's step: as far as to the wanted makespan if it were linear.
    const double wanted = best.makespan * (1 - kFirstSaving / (1 + kShrinking * i));
    const double step = (makespan - wanted) / spread;
    for (size_t k = 0; k < count; ++k) {
      costs[k] = std::max(costs[k], kSmallest * mean) * Growth(step * (slope - weights[k]));
    }
    scaling.Apply(costs);
  }
  return best;
}

}  // namespace batchplan
