#include "server/fitting/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace batchplan {
namespace {

constexpr double kMemory = 1 - 1.0 / 2048;
// How much better the recent samples' own fit must be to replace the sums, in squared scales. By
// chance, its three coefficients gain three, and a straggler among the samples gains sixteen.
constexpr double kChange = 48;
// Sums of a group size with less weight are forgotten: a single row is after 14,000 others.
constexpr double kLeastWeight = 1e-3;

std::span<const TimingSample> Latest(const CostFit& fit, size_t count) {
  return std::span(fit.recent).last(count);
}

// The columns that the sums have.
Columns KnownColumns(const CostFit& fit) {
  Columns columns = kWithoutSequences;
  if (fit.sums.matrix[3][3] > 0) columns |= kPerSequence;
  if (fit.loads_in_sums) columns |= LoadColumns(fit.load_names.size());
  return columns;
}

// The row of a sample in sums with these columns.
PerColumn RowFor(const TimingSample& sample, const RobustFit& model, Columns columns) {
  PerColumn row = model.Row(sample);
  for (size_t column = 0; column < kColumns; ++column) {
    if (!HasColumn(columns, column)) row[column] = 0;
  }
  return row;
}

// The variance of the sums' prediction for `row`, in units of the scale squared. Where the sums
// know nothing, a coefficient may explain the whole time. Infinite for a load that the sums never
// saw.
double Leverage(const CostFit& fit, const PerColumn& row) {
  Columns columns = 0;
  for (size_t column = 0; column < kColumns; ++column) {
    if (fit.sums.matrix[column][column] > 0) {
      columns |= 1U << column;
    } else if (row[column] > 0) {
      return std::numeric_limits<double>::infinity();
    }
  }
  const double ridge = fit.model.scale * fit.model.scale / fit.sums.weight;
  const std::optional<PerColumn> solution = fit.sums.SolveFor(row, columns, ridge);
  return solution ? std::max(0.0, Dot(row, *solution)) : 0;
}

double WeightOf(double ranks, const CostFit& fit) {
  if (fit.sizes.empty()) return fit.recent.back().context_parallel == ranks ? fit.sums.weight : 0;
  for (const SizeSums& size : fit.sizes) {
    if (size.ranks == ranks) return size.sums.weight;
  }
  return 0;
}

// Adds a row to the sums, and to the sums of its group size once there are several sizes.
void AddRow(const TimingSample& sample, const PerColumn& row, double weight, CostFit& fit) {
  const double ranks = sample.context_parallel;
  if (fit.sizes.empty() && fit.sums.weight > 0 && WeightOf(ranks, fit) == 0) {
    SumsOf(fit.recent.back().context_parallel, fit.sizes) = fit.sums;
  }
  fit.sums.Decay(kMemory);
  fit.sums.Add(row, fit.model.Target(sample), weight);
  if (fit.sizes.empty()) return;
  for (SizeSums& size : fit.sizes) size.sums.Decay(kMemory);
  std::erase_if(fit.sizes, [&](const SizeSums& size) {
    return size.ranks != ranks && size.sums.weight < kLeastWeight;
  });
  SumsOf(ranks, fit.sizes).Add(row, fit.model.Target(sample), weight);
  if (fit.sizes.size() < 2) fit.sizes.clear();
}

// Solves the sums for the model's coefficients.
void SolveSums(CostFit& fit) {
  const Columns columns = KnownColumns(fit);
  if (!fit.sizes.empty()) return fit.model.SolveFrom(fit.sizes, columns);
  const SizeSums all[] = {{.ranks = fit.recent.back().context_parallel, .sums = fit.sums}};
  fit.model.SolveFrom(all, columns);
}

// Drops the sums of other group sizes if all recent samples have one size: the old sums may be
// wrong, and the job does not need them now.
void KeepOnlySize(CostFit& fit) {
  if (fit.sizes.empty()) return;
  const double ranks = fit.recent.back().context_parallel;
  const auto is_of_size = [&](const TimingSample& sample) {
    return sample.context_parallel == ranks;
  };
  if (WeightOf(ranks, fit) == 0 || !std::ranges::all_of(fit.recent, is_of_size)) return;
  fit.sums = SumsOf(ranks, fit.sizes);
  fit.sizes.clear();
  SolveSums(fit);
  fit.model.typical_milliseconds = TypicalOf(fit.recent, fit.model);
  fit.model.scale = ScaleOf(fit.recent, fit.model);
}

void Fold(const TimingSample& sample, CostFit& fit) {
  const PerColumn row = RowFor(sample, fit.model, KnownColumns(fit));
  const double residual = fit.model.Residual(sample);
  const double gate = kOutlierGate * fit.model.scale;
  if (WeightOf(sample.context_parallel, fit) >= kRefreshSamples &&
      std::abs(residual) > gate * std::sqrt(1 + Leverage(fit, row))) {
    return;
  }
  // A new kind of sample that is slower than predicted weighs less: it also varies more.
  const double unit = std::abs(residual) > gate ? std::max(1.0, 1 + residual) : 1;
  AddRow(sample, row, 1 / (unit * unit), fit);
}

// Starts the sums from the recent samples that the model explains.
void StartSums(CostFit& fit) {
  fit.sums = {};
  fit.sizes.clear();
  const Columns columns = ColumnsOf(fit.recent);
  fit.loads_in_sums = (columns & kAllLoads) != 0;
  SumsBySize sizes;
  for (const TimingSample& sample : fit.recent) {
    if (fit.model.IsOutlier(sample)) continue;
    const PerColumn row = RowFor(sample, fit.model, columns);
    fit.sums.Decay(kMemory);
    fit.sums.Add(row, fit.model.Target(sample), 1);
    for (SizeSums& size : sizes) size.sums.Decay(kMemory);
    SumsOf(sample.context_parallel, sizes).Add(row, fit.model.Target(sample), 1);
  }
  const double latest = fit.recent.back().context_parallel;
  const bool all_of_latest = sizes.size() == 1 && sizes.front().ranks == latest;
  if (!all_of_latest) fit.sizes = std::move(sizes);
}

// Removes these columns because newer samples lack them, and solves for the costs again.
void Forget(Columns columns, CostFit& fit) {
  RobustFit& model = fit.model;
  bool costs = false;
  for (size_t column = 0; column < kColumns; ++column) {
    if (!HasColumn(columns, column)) continue;
    fit.sums.Forget(column);
    for (SizeSums& size : fit.sizes) size.sums.Forget(column);
    costs = costs || model.coefficients[column] > 0;
  }
  if (!costs) return;
  if (fit.sums.weight > 0) {
    SolveSums(fit);
    model.typical_milliseconds = TypicalOf(fit.recent, model);
    model.scale = ScaleOf(fit.recent, model);
  } else {
    model = FitRobustly(fit.recent, ColumnsOf(fit.recent) & ~columns);
  }
}

// Starts anew from the latest `count` samples, to which `model` was fitted.
void Restart(const RobustFit& model, size_t count, CostFit& fit) {
  fit.recent.erase(fit.recent.begin(), fit.recent.end() - static_cast<std::ptrdiff_t>(count));
  fit.model = model;
  fit.sums = {};
  fit.sizes.clear();
  fit.loads_in_sums = false;
  if (count == kRecentSamples) StartSums(fit);
}

void Refresh(CostFit& fit) {
  const bool all_said = (fit.said >= kSaidSamples && (KnownColumns(fit) & kPerSequence) == 0) ||
                        (fit.with_loads >= kSaidSamples && !fit.loads_in_sums);
  if (!(fit.sums.weight > 0) || all_said) {
    Restart(FitRobustly(fit.recent), fit.recent.size(), fit);
    return;
  }
  const double known_scale = fit.model.scale;
  SolveSums(fit);
  fit.model.typical_milliseconds = TypicalOf(fit.recent, fit.model);
  for (const size_t count : {kRecentSamples / 2, kRecentSamples}) {
    const std::span<const TimingSample> latest = Latest(fit, count);
    const RobustFit own = FitRobustly(latest);
    // If the sums no longer fit, their scale has grown already.
    const double scale = std::min(known_scale, 2 * own.scale);
    const double gain = CappedLoss(latest, fit.model, scale) - CappedLoss(latest, own, scale);
    if (gain <= kChange) continue;
    Restart(own, count, fit);
    return;
  }
  fit.model.scale = ScaleOf(fit.recent, fit.model);
}

void AddSize(double ranks, std::vector<double>& sizes) {
  const auto place = std::ranges::lower_bound(sizes, ranks);
  if (place == sizes.end() || *place != ranks) sizes.insert(place, ranks);
}

std::vector<double> SizesOf(std::span<const TimingSample> samples) {
  std::vector<double> sizes;
  for (const TimingSample& sample : samples) AddSize(sample.context_parallel, sizes);
  return sizes;
}

// The costs of `model`, which has `loads` loads, and how well they fit `samples`.
FittedCosts CostsBy(const RobustFit& model, size_t loads, std::span<const TimingSample> samples) {
  double squares = 0;
  double measured = 0;
  size_t kept = 0;
  for (const TimingSample& sample : samples) {
    if (model.IsOutlier(sample)) continue;
    const double residual = sample.milliseconds - model.Predict(sample);
    squares += residual * residual;
    measured += sample.milliseconds;
    ++kept;
  }
  FittedCosts costs = {.per_token = model.coefficients[0],
                       .per_token_squared = model.coefficients[1],
                       .per_microbatch = model.coefficients[2],
                       .per_sequence = model.coefficients[3],
                       .exchange = model.exchange};
  const auto first_load = model.coefficients.begin() + kFirstLoad;
  costs.per_unit.assign(first_load, first_load + static_cast<std::ptrdiff_t>(loads));
  costs.context_sizes = SizesOf(samples);
  const auto count = static_cast<double>(kept);
  if (kept > 0) costs.fit_error = std::sqrt(squares / count) / (measured / count);
  costs.outlier_share = 1 - count / static_cast<double>(samples.size());
  return costs;
}

// Keeps only 1 and the sizes whose exchange is known. Others came or went since the last refresh.
void KeepExchanging(FittedCosts& costs) {
  if (costs.exchange.empty()) return;
  std::erase_if(costs.context_sizes, [](double ranks) { return ranks > 1; });
  for (const SizeExchange& size : costs.exchange) AddSize(size.ranks, costs.context_sizes);
}

}  // namespace

void SetLoads(std::span<const std::string> names, CostFit& fit) {
  if (std::ranges::is_permutation(names, fit.load_names)) return;
  for (TimingSample& sample : fit.recent) sample.loads.clear();
  fit.load_names.assign(names.begin(), names.end());
  fit.with_loads = 0;
  fit.loads_in_sums = false;
  Forget(kAllLoads, fit);
}

void AddSample(const TimingSample& sample, CostFit& fit) {
  if (sample.sequences > 0) {
    ++fit.said;
  } else {
    fit.said = 0;
    Forget(kPerSequence, fit);
  }
  if (!sample.loads.empty()) ++fit.with_loads;
  if (fit.sums.weight > 0) Fold(sample, fit);
  if (fit.recent.size() == kRecentSamples) fit.recent.erase(fit.recent.begin());
  fit.recent.push_back(sample);
  KeepOnlySize(fit);
  ++fit.samples;
  if (fit.samples % kRefreshSamples == 0) Refresh(fit);
}

std::optional<FittedCosts> Costs(const CostFit& fit) {
  if (fit.samples < kMinSamples) return std::nullopt;
  FittedCosts costs = CostsBy(fit.model, fit.load_names.size(), fit.recent);
  for (const SizeSums& size : fit.sizes) AddSize(size.ranks, costs.context_sizes);
  KeepExchanging(costs);
  return costs;
}

FittedCosts CostsOf(std::span<const TimingSample> samples) {
  FittedCosts costs = CostsBy(FitRobustly(samples), samples.front().loads.size(), samples);
  KeepExchanging(costs);
  return costs;
}

}  // namespace batchplan
