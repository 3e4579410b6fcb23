#include "server/fitting/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace batchplan {
namespace {

constexpr double kMemory = 1 - 1.0 / 2048;
// By how much the recent samples' own fit must be better before it replaces the sums: the squares
// of so many scales. Three coefficients of its own are worth three by chance, and a straggler that
// it happens to meet sixteen.
constexpr double kChange = 48;

std::span<const TimingSample> Latest(const CostFit& fit, size_t count) {
  return std::span(fit.recent).last(count);
}

// Those that the sums have.
Columns KnownColumns(const NormalEquations& sums) {
  return sums.matrix[3][3] > 0 ? kAllColumns : kWithoutSequences;
}

// A sample as a row of sums with these columns.
Quadruple RowFor(const TimingSample& sample, const RobustFit& model, Columns columns) {
  Quadruple row = model.Row(sample);
  if ((columns & kPerSequence) == 0) row[3] = 0;
  return row;
}

// The variance of the sums' prediction for `row`, in units of the scale squared. Where the sums
// know nothing, a coefficient's share may be as large as the whole time.
double Leverage(const CostFit& fit, const Quadruple& row) {
  const double ridge = fit.model.scale * fit.model.scale / fit.sums.weight;
  const std::optional<Quadruple> solution = fit.sums.SolveFor(row, KnownColumns(fit.sums), ridge);
  return solution ? std::max(0.0, Dot(row, *solution)) : 0;
}

void Fold(const TimingSample& sample, CostFit& fit) {
  const Quadruple row = RowFor(sample, fit.model, KnownColumns(fit.sums));
  const double residual = fit.model.Residual(sample);
  const double gate = kOutlierGate * fit.model.scale;
  if (std::abs(residual) > gate * std::sqrt(1 + Leverage(fit, row))) return;
  // A sample of a new kind that takes longer than thought also deviates by more than thought.
  const double unit = std::abs(residual) > gate ? std::max(1.0, 1 + residual) : 1;
  fit.sums.Decay(kMemory);
  fit.sums.Add(row, fit.model.Target(sample), 1 / (unit * unit));
}

// Starts the sums from the recent samples, by the model that was fitted to them.
void StartSums(CostFit& fit) {
  fit.sums = {};
  const Columns columns = ColumnsOf(fit.recent);
  for (const TimingSample& sample : fit.recent) {
    if (fit.model.IsOutlier(sample)) continue;
    fit.sums.Decay(kMemory);
    fit.sums.Add(RowFor(sample, fit.model, columns), fit.model.Target(sample), 1);
  }
}

// For a sample that does not say its sequences: costs without them, as of the last refresh.
void ForgetSequences(CostFit& fit) {
  fit.said = 0;
  fit.sums.Forget(3);
  RobustFit& model = fit.model;
  if (model.coefficients[3] == 0) return;
  if (fit.sums.weight > 0) {
    model.coefficients = IdentifiedFit(fit.sums, model.scale, kWithoutSequences);
    model.typical_milliseconds = TypicalOf(fit.recent, model);
    model.scale = ScaleOf(fit.recent, model);
  } else {
    model = FitRobustly(fit.recent, kWithoutSequences);
  }
}

// Starts anew from the latest `count` samples, which `model` was fitted to.
void Restart(const RobustFit& model, size_t count, CostFit& fit) {
  fit.recent.erase(fit.recent.begin(), fit.recent.end() - static_cast<std::ptrdiff_t>(count));
  fit.model = model;
  fit.sums = {};
  if (count == kRecentSamples) StartSums(fit);
}

void Refresh(CostFit& fit) {
  const bool all_said = fit.said >= kSaidSamples && KnownColumns(fit.sums) == kWithoutSequences;
  if (!(fit.sums.weight > 0) || all_said) {
    Restart(FitRobustly(fit.recent), fit.recent.size(), fit);
    return;
  }
  const double known_scale = fit.model.scale;
  fit.model.coefficients = IdentifiedFit(fit.sums, known_scale, KnownColumns(fit.sums));
  fit.model.typical_milliseconds = TypicalOf(fit.recent, fit.model);
  for (const size_t count : {kRecentSamples / 2, kRecentSamples}) {
    const std::span<const TimingSample> latest = Latest(fit, count);
    const RobustFit own = FitRobustly(latest);
    // The sums' scale has already grown where they have ceased to fit.
    const double scale = std::min(known_scale, 2 * own.scale);
    const double gain = CappedLoss(latest, fit.model, scale) - CappedLoss(latest, own, scale);
    if (gain <= kChange) continue;
    Restart(own, count, fit);
    return;
  }
  fit.model.scale = ScaleOf(fit.recent, fit.model);
}

// The costs of `model`, and how well it fits `samples`.
FittedCosts CostsBy(const RobustFit& model, std::span<const TimingSample> samples) {
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
                       .per_sequence = model.coefficients[3]};
  const auto count = static_cast<double>(kept);
  if (kept > 0) costs.fit_error = std::sqrt(squares / count) / (measured / count);
  costs.outlier_share = 1 - count / static_cast<double>(samples.size());
  return costs;
}

}  // namespace

void AddSample(const TimingSample& sample, CostFit& fit) {
  if (sample.sequences > 0) {
    ++fit.said;
  } else {
    ForgetSequences(fit);
  }
  if (fit.sums.weight > 0) Fold(sample, fit);
  if (fit.recent.size() == kRecentSamples) fit.recent.erase(fit.recent.begin());
  fit.recent.push_back(sample);
  ++fit.samples;
  if (fit.samples % kRefreshSamples == 0) Refresh(fit);
}

std::optional<FittedCosts> Costs(const CostFit& fit) {
  if (fit.samples < kMinSamples) return std::nullopt;
  return CostsBy(fit.model, fit.recent);
}

FittedCosts CostsOf(std::span<const TimingSample> samples) {
  return CostsBy(FitRobustly(samples), samples);
}

}  // namespace batchplan
