#include "server/planner/fewest_bins/column_generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/fewest_bins/bin_completion.h"
#include "server/planner/fewest_bins/bounded_knapsack.h"
#include "server/planner/fewest_bins/covering_program.h"

namespace batchplan {
namespace {

// Integer prices are in units of 2^-31 bins.
constexpr uint64_t kBin = uint64_t{1} << 31;

// A dive is left to bin completion when so few items are left, for so many of its steps, each of
// which takes as long as several here.
constexpr uint64_t kMaxCompletedItems = 96;
constexpr uint64_t kMaxCompletionSteps = 20000;
constexpr uint64_t kStepsPerCompletion = 10;

constexpr int kMaxDives = 4;

uint64_t CeilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

CoveringProgram::Pattern PatternOf(std::vector<uint32_t> kinds) {
  std::sort(kinds.begin(), kinds.end());
  CoveringProgram::Pattern pattern;
  for (uint32_t kind : kinds) {
    if (pattern.empty() || pattern.back().first != kind) pattern.emplace_back(kind, 0);
    ++pattern.back().second;
  }
  return pattern;
}

std::vector<uint32_t> MostInABin(const Kinds& kinds) {
  std::vector<uint32_t> most(kinds.size());
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    most[kind] = std::min(kinds.demand[kind], kinds.capacity / kinds.lengths[kind]);
  }
  return most;
}

// The linear program over all patterns that the demand allows, solved for less and less demand.
class Relaxation {
 public:
  explicit Relaxation(const Kinds& kinds)
      : kinds_(kinds),
        demand_(kinds.demand),
        program_(kinds.demand, MostInABin(kinds)),
        center_(kinds.size()) {
    ResetCenter();
  }

  const CoveringProgram& program() const { return program_; }
  std::span<const uint32_t> demand() const { return demand_; }
  // For the present demand.
  uint64_t bound() const { return bound_; }

  void SetDemand(std::vector<uint32_t> demand) {
    demand_ = std::move(demand);
    program_.SetDemand(demand_);
    bound_ = 0;
  }

  // Generates patterns until the bound cannot rise above that of the linear program, or reaches
  // `enough_bound`.
  void Solve(uint64_t enough_bound, uint64_t& steps) {
    double smoothing = 0.7;
    while (steps > 0) {
      program_.Solve(steps);
      // Where rounded up the bound is the value of the program, which only falls, it is final.
      if (bound_ >= enough_bound || bound_ + 1e-6 >= program_.Value()) return;
      const KnapsackFill fill = Price(smoothing, steps);
      if (!fill.kinds.empty()) {
        CoveringProgram::Pattern pattern = PatternOf(fill.kinds);
        double worth = 0;
        for (const auto& [kind, times] : pattern) worth += program_.prices()[kind] * times;
        if (worth > 1 + 1e-9) {
          program_.Add(std::move(pattern));
          smoothing = std::min(0.9, smoothing + 0.02);
          continue;
        }
      }
      // Nothing at the smoothed prices, and nothing at the program's own: solved.
      if (smoothing == 0) return;
      smoothing = smoothing < 0.2 ? 0 : smoothing / 2;
    }
  }

 private:
  // The most valuable pattern at prices between the best known and the program's.
  KnapsackFill Price(double smoothing, uint64_t& steps) {
    std::vector<double> mixed(kinds_.size());
    std::vector<uint64_t> values(kinds_.size());
    uint64_t worth = 0;
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      mixed[kind] =
          smoothing * center_[kind] + (1 - smoothing) * std::max(0.0, program_.prices()[kind]);
      values[kind] = static_cast<uint64_t>(std::min(1.0, mixed[kind]) * static_cast<double>(kBin));
      worth += values[kind] * demand_[kind];
    }
    KnapsackFill fill = FillKnapsack(kinds_, demand_, values, kBin, steps);
    const uint64_t bound = CeilDiv(worth, fill.at_most);
    bound_ = std::max(bound_, bound);
    const double exact = static_cast<double>(worth) / static_cast<double>(fill.at_most);
    if (exact > best_exact_) {
      best_exact_ = exact;
      center_ = mixed;
    }
    return fill;
  }

  void ResetCenter() {
    best_exact_ = 0;
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      center_[kind] = static_cast<double>(kinds_.lengths[kind]) / kinds_.capacity;
    }
  }

  const Kinds& kinds_;
  std::vector<uint32_t> demand_;
  CoveringProgram program_;
  std::vector<double> center_;
  double best_exact_ = 0;
  uint64_t bound_ = 0;
};

// Takes a bin of the pattern, less what is in no demand, off the demand.
void TakeBin(const CoveringProgram::Pattern& pattern, std::vector<uint32_t>& demand, Bins& bins) {
  std::vector<uint32_t> bin;
  for (const auto& [kind, times] : pattern) {
    const uint32_t taken = std::min(times, demand[kind]);
    bin.insert(bin.end(), taken, kind);
    demand[kind] -= taken;
  }
  if (!bin.empty()) bins.Add(bin);
}

std::optional<Bins> Dive(const Kinds& kinds, Relaxation& relaxation, size_t target,
                         uint64_t& steps) {
  Bins bins;
  std::vector<uint32_t> demand(relaxation.demand().begin(), relaxation.demand().end());
  while (steps > 0) {
    const uint64_t tokens = TokensIn(kinds, demand);
    if (tokens == 0) return bins;
    if (bins.size() + CeilDiv(tokens, kinds.capacity) > target) return std::nullopt;
    if (std::accumulate(demand.begin(), demand.end(), uint64_t{0}) <= kMaxCompletedItems) {
      uint64_t completion_steps = std::min(steps / kStepsPerCompletion, kMaxCompletionSteps);
      steps -= completion_steps * kStepsPerCompletion;
      const std::optional<Bins> rest =
          CompleteBins(kinds, demand, target - bins.size(), completion_steps).bins;
      steps += completion_steps * kStepsPerCompletion;
      if (rest) {
        for (size_t bin = 0; bin < rest->size(); ++bin) bins.Add((*rest)[bin]);
        return bins;
      }
    }
    // Whole bins, and of the fractions the largest.
    std::pair<double, size_t> largest{-1, 0};
    for (const auto& [index, amount] : relaxation.program().Solution()) {
      const double whole = std::floor(amount + 1e-6);
      for (double bin = 0; bin < whole; ++bin) {
        TakeBin(relaxation.program().pattern(index), demand, bins);
      }
      if (amount - whole > largest.first) largest = {amount - whole, index};
    }
    if (largest.first < 0) return std::nullopt;
    if (largest.first > 1e-6) TakeBin(relaxation.program().pattern(largest.second), demand, bins);
    relaxation.SetDemand(demand);
    relaxation.Solve(target + 1 - std::min(target, bins.size()), steps);
    if (bins.size() + relaxation.bound() > target) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

GeneratedBins GenerateColumns(const Kinds& kinds, uint64_t enough, uint64_t fewer_than,
                              uint64_t& steps) {
  Relaxation relaxation(kinds);
  relaxation.Solve(fewer_than, steps);
  GeneratedBins result{.bins = std::nullopt, .bound = relaxation.bound()};
  uint64_t target = std::max(enough, result.bound);
  for (int dive = 0; dive < kMaxDives && target < fewer_than && !result.bins; ++dive) {
    Relaxation copy = relaxation;
    result.bins = Dive(kinds, copy, target, steps);
    target = std::min(target + 1, fewer_than - 1);
  }
  return result;
}

}  // namespace batchplan
