#include "server/fitting/robust_fit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "server/fitting/median.h"

namespace batchplan {
namespace {

// Used by IdentifiedFit: the largest standard error of a coefficient, as a share of the time, and
// how much a fit improves by chance, by a choice of columns and by another column.
constexpr double kMaxStandardError = 0.1;
constexpr double kChance = 4;
constexpr double kChanceOfColumn = 9;
// Sets of columns that include sequences, in the order in which they are tried.
constexpr Columns kWithSequences[] = {
    kWithoutLoads,
    kPerToken | kPerTokenSquared | kPerSequence,
    kPerToken | kPerMicrobatch | kPerSequence,
    kPerTokenSquared | kPerMicrobatch | kPerSequence,
    kPerToken | kPerSequence,
    kPerTokenSquared | kPerSequence,
    kPerMicrobatch | kPerSequence,
};

bool Identified(const NormalEquations& equations, double scale, Columns columns) {
  // The variance of each coefficient, in units of scale^2.
  const std::optional<PerColumn> variances = equations.Variances(columns);
  if (!variances) return false;
  for (size_t column = 0; column < kColumns; ++column) {
    if (!HasColumn(columns, column)) continue;
    const double mean_square = equations.matrix[column][column] / equations.weight;
    if (!(scale * std::sqrt((*variances)[column] * mean_square) < kMaxStandardError)) return false;
  }
  return true;
}

// A set of columns, their coefficients, and how much these lower the squared error.
struct Choice {
  Columns columns = 0;
  PerColumn coefficients{};
  double explained = 0;
};

Choice ChoiceOf(const NormalEquations& equations, Columns columns) {
  Choice choice = {.columns = columns, .coefficients = SolveNonNegative(equations, columns)};
  choice.explained = Dot(choice.coefficients, equations.right);
  return choice;
}

// The largest subset of `columns` that is identified together with `loads`, the first of equally
// large ones; none if no column is.
std::optional<Columns> IdentifiedBeside(const NormalEquations& equations, double scale,
                                        Columns columns, Columns loads) {
  for (int size = std::popcount(columns); size > 0; --size) {
    for (Columns part = 1; part <= columns; ++part) {
      if ((part & ~columns) != 0 || std::popcount(part) != size) continue;
      if (Identified(equations, scale, part | loads)) return part;
    }
  }
  return std::nullopt;
}

// Adds the loads that can be identified, the one that explains most first.
void ChooseLoads(const NormalEquations& equations, double scale, Columns loads, Choice& best) {
  for (;;) {
    Choice next = {.explained = best.explained + kChanceOfColumn * scale * scale};
    for (size_t column = kFirstLoad; column < kColumns; ++column) {
      if (!HasColumn(loads, column) || HasColumn(best.columns, column)) continue;
      const Columns chosen = (best.columns & kAllLoads) | 1U << column;
      // With more columns it would not be identified either.
      if (!Identified(equations, scale, chosen)) {
        loads &= ~(1U << column);
        continue;
      }
      const std::optional<Columns> others =
          IdentifiedBeside(equations, scale, best.columns & kWithoutLoads, chosen);
      if (!others) continue;
      const Choice choice = ChoiceOf(equations, *others | chosen);
      if (choice.explained > next.explained) next = choice;
    }
    if (next.columns == 0) return;
    best = next;
  }
}

constexpr int kDeviationRounds = 20;
// Iteration ends when a round lowers the sum of absolute deviations by less.
constexpr double kProgress = 0.999;
constexpr int kGateRounds = 8;
// Converts the median absolute deviation of a normal distribution to its standard deviation.
constexpr double kDeviationOfMedian = 1.4826;
constexpr double kJitterShare = 0.05;
// Samples closer to the fit than this have equal weights.
constexpr double kLeastResidual = 1e-3;

// The exchange per token of groups of `ranks`; 0 if unknown.
double ExchangeOf(const RobustFit& fit, double ranks) {
  for (const SizeExchange& size : fit.exchange) {
    if (size.ranks == ranks) return size.per_token;
  }
  return 0;
}

using Solver = std::function<PerColumn(const NormalEquations&)>;

// Sets coefficients and exchange from the sums.
void SetCosts(std::span<const SizeSums> sizes, const Solver& solve, RobustFit& fit,
              double certainty) {
  if (sizes.size() < 2) {
    fit.coefficients = solve(sizes.empty() ? NormalEquations() : sizes.front().sums);
    fit.exchange.clear();
    return;
  }
  SharedFit shared = FitShared(sizes, solve, fit.scale, certainty);
  fit.coefficients = shared.coefficients;
  fit.exchange = std::move(shared.exchange);
}

// A time proportional to tokens, which two stragglers can't distort.
RobustFit MedianRate(std::span<const TimingSample> samples) {
  std::vector<double> rates;
  rates.reserve(samples.size());
  for (const TimingSample& sample : samples) {
    rates.push_back(sample.milliseconds / TermsOf(sample)[0]);
  }
  RobustFit fit;
  fit.coefficients[0] = Median(std::move(rates));
  fit.typical_milliseconds = TypicalOf(samples, fit);
  return fit;
}

RobustFit LeastAbsoluteDeviations(std::span<const TimingSample> samples, Columns columns) {
  RobustFit fit = MedianRate(samples);
  std::vector<PerColumn> rows;
  std::vector<double> targets;
  for (const TimingSample& sample : samples) {
    rows.push_back(fit.Row(sample));
    targets.push_back(fit.Target(sample));
  }
  double best_deviations = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kDeviationRounds; ++round) {
    SumsBySize sizes;
    double deviations = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const double ranks = samples[i].context_parallel;
      const double predicted =
          Dot(rows[i], fit.coefficients) + ExchangeOf(fit, ranks) * (ranks - 1) * rows[i][0];
      const double residual = std::abs(targets[i] - predicted);
      SumsOf(ranks, sizes).Add(rows[i], targets[i], 1 / std::max(residual, kLeastResidual));
      deviations += residual;
    }
    if (deviations > kProgress * best_deviations) break;
    best_deviations = deviations;
    SetCosts(
        sizes, [&](const NormalEquations& sums) { return SolveNonNegative(sums, columns); }, fit,
        /*certainty=*/0);
  }
  fit.typical_milliseconds = TypicalOf(samples, fit);
  return fit;
}

}  // namespace

PerColumn TermsOf(const TimingSample& sample) {
  PerColumn terms = {sample.tokens / sample.context_parallel,
                     sample.tokens_squared / sample.context_parallel, 1, sample.sequences};
  for (size_t i = 0; i < sample.loads.size(); ++i) {
    terms[kFirstLoad + i] = sample.loads[i] / sample.context_parallel;
  }
  return terms;
}

Columns ColumnsOf(std::span<const TimingSample> samples) {
  Columns columns = kAllColumns;
  for (const TimingSample& sample : samples) {
    if (sample.sequences == 0) columns &= ~kPerSequence;
    columns &= kWithoutLoads | LoadColumns(sample.loads.size());
  }
  return columns;
}

PerColumn IdentifiedFit(const NormalEquations& equations, double scale, Columns known) {
  if (!(equations.weight > 0)) return {};
  std::optional<Choice> best;
  const auto consider = [&](Columns columns, double chance) {
    if (!Identified(equations, scale, columns)) return;
    const Choice choice = ChoiceOf(equations, columns);
    if (!best || choice.explained > best->explained + chance * scale * scale) best = choice;
  };
  consider(kWithoutSequences, 0);
  if (!best) {
    for (const Columns pair : {kPerToken | kPerTokenSquared, kPerToken | kPerMicrobatch,
                               kPerTokenSquared | kPerMicrobatch}) {
      consider(pair, kChance);
    }
  }
  if (!best) best = ChoiceOf(equations, kPerToken);
  if ((known & kPerSequence) != 0) {
    for (const Columns columns : kWithSequences) consider(columns, kChanceOfColumn);
  }
  ChooseLoads(equations, scale, known & kAllLoads, *best);
  return best->coefficients;
}

double RobustFit::Predict(const TimingSample& sample) const {
  const double received = sample.tokens * (sample.context_parallel - 1) / sample.context_parallel;
  return Dot(coefficients, TermsOf(sample)) + ExchangeOf(*this, sample.context_parallel) * received;
}

void RobustFit::SolveFrom(std::span<const SizeSums> sizes, Columns columns) {
  SetCosts(
      sizes, [&](const NormalEquations& sums) { return IdentifiedFit(sums, scale, columns); },
      *this, kCertaintyOfExchange);
}

double RobustFit::Unit(const TimingSample& sample) const {
  return Predict(sample) + kJitterShare * typical_milliseconds;
}

double RobustFit::Residual(const TimingSample& sample) const {
  return (sample.milliseconds - Predict(sample)) / Unit(sample);
}

bool RobustFit::IsOutlier(const TimingSample& sample) const {
  return std::abs(Residual(sample)) > kOutlierGate * scale;
}

PerColumn RobustFit::Row(const TimingSample& sample) const {
  PerColumn row = TermsOf(sample);
  for (const double unit = Unit(sample); double& term : row) term /= unit;
  return row;
}

double RobustFit::Target(const TimingSample& sample) const {
  return sample.milliseconds / Unit(sample);
}

double ScaleOf(std::span<const TimingSample> samples, const RobustFit& fit) {
  std::vector<double> deviations;
  deviations.reserve(samples.size());
  for (const TimingSample& sample : samples) {
    deviations.push_back(std::abs(fit.Residual(sample)));
  }
  // A fit with as many coefficients as samples is perfect, and says nothing about the deviation.
  std::ranges::sort(deviations);
  const auto more = std::ranges::count_if(std::span(fit.coefficients).subspan(3),
                                          [](double coefficient) { return coefficient > 0; });
  const size_t coefficients = 3 + static_cast<size_t>(more) + fit.exchange.size();
  const size_t fitted = std::min(coefficients, deviations.size() - 1);
  const double median = deviations[fitted + (deviations.size() - fitted) / 2];
  return std::max(kDeviationOfMedian * median, kLeastScale);
}

double TypicalOf(std::span<const TimingSample> samples, const RobustFit& fit) {
  std::vector<double> predicted;
  predicted.reserve(samples.size());
  for (const TimingSample& sample : samples) predicted.push_back(fit.Predict(sample));
  return Median(std::move(predicted));
}

double CappedLoss(std::span<const TimingSample> samples, const RobustFit& fit, double scale) {
  double loss = 0;
  for (const TimingSample& sample : samples) {
    const double scales = std::min(std::abs(fit.Residual(sample)) / scale, kOutlierGate);
    loss += scales * scales;
  }
  return loss;
}

RobustFit FitRobustly(std::span<const TimingSample> samples, Columns columns) {
  RobustFit fit = LeastAbsoluteDeviations(samples, columns);
  for (int round = 0; round < kGateRounds; ++round) {
    fit.scale = ScaleOf(samples, fit);
    SumsBySize sizes;
    for (const TimingSample& sample : samples) {
      if (fit.IsOutlier(sample)) continue;
      SumsOf(sample.context_parallel, sizes).Add(fit.Row(sample), fit.Target(sample), 1);
    }
    const RobustFit before = fit;
    fit.SolveFrom(sizes, columns);
    fit.typical_milliseconds = TypicalOf(samples, fit);
    if (fit == before) break;
  }
  fit.scale = ScaleOf(samples, fit);
  return fit;
}

}  // namespace batchplan
