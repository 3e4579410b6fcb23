// A cost model for a few timings, some of them of stragglers, in the terms that the timings
// identify.
//
//   RobustFit fit = FitRobustly(samples);
//   fit.IsOutlier(sample);

#ifndef BATCHPLAN_SERVER_FITTING_ROBUST_FIT_H_
#define BATCHPLAN_SERVER_FITTING_ROBUST_FIT_H_

#include <span>
#include <vector>

#include "server/fitting/exchange_fit.h"
#include "server/fitting/least_squares.h"

namespace batchplan {

// What is known of one micro-batch that ran through the whole model.
struct TimingSample {
  // Sums over its sequences of the aligned length and of its square.
  double tokens = 0;
  double tokens_squared = 0;
  double milliseconds = 0;
  // How many sequences; 0: not known.
  double sequences = 0;
  // The ranks that share its tokens; milliseconds are those of each.
  double context_parallel = 1;
  // Sums over its sequences of their loads, at most kMaxFittedLoads; empty: not known.
  std::vector<double> loads = {};

  friend bool operator==(const TimingSample&, const TimingSample&) = default;
};

// The columns of a cost model, in the order of its coefficients.
inline constexpr Columns kPerToken = 1;
inline constexpr Columns kPerTokenSquared = 2;
inline constexpr Columns kPerMicrobatch = 4;
inline constexpr Columns kPerSequence = 8;
inline constexpr Columns kWithoutSequences = kPerToken | kPerTokenSquared | kPerMicrobatch;
inline constexpr Columns kWithoutLoads = kWithoutSequences | kPerSequence;
// The column of the first load; the others follow.
inline constexpr size_t kFirstLoad = 4;
inline constexpr size_t kMaxFittedLoads = kColumns - kFirstLoad;
inline constexpr Columns kAllLoads = kAllColumns & ~kWithoutLoads;

// The columns of this many loads.
inline constexpr Columns LoadColumns(size_t loads) {
  return kAllLoads & ((1U << (kFirstLoad + loads)) - 1);
}

// The factor of each coefficient: tokens and squares over the ranks that share them, 1, sequences,
// which are not divided by the ranks, and loads over the ranks.
PerColumn TermsOf(const TimingSample& sample);

// The columns that the samples have: that of sequences if all samples say how many they have, and
// those of loads if all have them. All samples with loads have equally many.
Columns ColumnsOf(std::span<const TimingSample> samples);

// The non-negative coefficients of least squared error, in some columns of `known`:
// kWithoutSequences and perhaps those of sequences and loads. A set of columns is identified if the
// standard error of each column's share of the time is below a tenth of the time. `scale` is the
// standard deviation of a target of weight 1; targets are times relative to their expected times.
//
// If all three columns without sequences are identified, all are used. If not, a pair is: the first
// identified one of tokens and squares, tokens and micro-batch, squares and micro-batch, unless a
// later one fits better by more than chance (4 of its squared errors' variances). If there is none,
// tokens alone.
//
// Sequences are used only if they can be told from the rest: in the first identified set with them,
// larger sets first, that fits better than all before it by more than chance hardly ever does (9
// variances). If all sequences have one length, or all micro-batches equally many sequences,
// sequences beside tokens or beside the micro-batch are not identified, and in their place explain
// no more: the simpler model stays.
//
// Then loads are added, each time the one with which the fit is best, as long as it is better by as
// much: beside all other columns, or if it is not identified beside these, beside as many of the
// columns without loads as possible. So of loads in proportion to each other one gets the cost of
// all; a load in proportion to tokens, or one that did not occur, gets none.
//
// So if all sequences have one length, or all micro-batches are alike, the cost is by the token; if
// all micro-batches are equally full, none of it is the micro-batch's. Constant time: some
// microseconds, and more with each load.
PerColumn IdentifiedFit(const NormalEquations& equations, double scale, Columns known);

// Residuals above this many scales are outliers: 1 in 16,000 of normally distributed ones.
inline constexpr double kOutlierGate = 4;
// The least scale, for timings that fit almost perfectly.
inline constexpr double kLeastScale = 0.005;

// An exchange above 0 by fewer standard errors counts as none.
inline constexpr double kCertaintyOfExchange = 3;

struct RobustFit {
  // Milliseconds per token, per token squared, per micro-batch, per sequence and per unit of each
  // load.
  PerColumn coefficients{};
  // The exchange by size of context-parallel groups above 1 that was seen; empty if the sizes do
  // not identify it, or nothing is exchanged.
  std::vector<SizeExchange> exchange = {};
  // The standard deviation of Residual() without outliers.
  double scale = 1;
  // The median of the samples' expected times.
  double typical_milliseconds = 0;

  // In milliseconds: the product of the coefficients with TermsOf(sample), and the exchange.
  double Predict(const TimingSample& sample) const;
  // The expected deviation of a sample if `scale` is 1: its expected time plus a twentieth of the
  // typical one, below which the clock's jitter matters more than the work.
  double Unit(const TimingSample& sample) const;
  // How far the sample is from the prediction, in units of Unit().
  double Residual(const TimingSample& sample) const;
  bool IsOutlier(const TimingSample& sample) const;
  // A sample as a row of the normal equations: the row, and the target, over Unit().
  PerColumn Row(const TimingSample& sample) const;
  double Target(const TimingSample& sample) const;
  // Sets coefficients, in some of `columns`, and exchange from sums of one or several sizes, by
  // IdentifiedFit and FitShared.
  void SolveFrom(std::span<const SizeSums> sizes, Columns columns);

  friend bool operator==(const RobustFit&, const RobustFit&) = default;
};

// The fit of `samples`, at least one, all positive, in ColumnsOf(samples) or fewer. Starts from
// least absolute deviations, found by iteratively reweighted least squares (E. J. Schlossmacher,
// "An iterative technique for absolute deviations curve fitting", JASA 68, 1973) from the median
// time per token; then, in turns, estimates the scale from the median absolute deviation (F. R.
// Hampel, "The influence curve and its role in robust estimation", JASA 69, 1974) and solves for
// the samples that are not outliers, by IdentifiedFit, and FitShared for groups of several sizes. A
// microsecond or two a sample, more with loads. Stragglers among up to a fifth of the samples
// hardly move it, unless one is the only sample of its kind: then its time counts as that of its
// kind.
RobustFit FitRobustly(std::span<const TimingSample> samples, Columns columns);
inline RobustFit FitRobustly(std::span<const TimingSample> samples) {
  return FitRobustly(samples, ColumnsOf(samples));
}

// The scale of the samples' residuals by `fit`, from their median absolute deviation.
double ScaleOf(std::span<const TimingSample> samples, const RobustFit& fit);

// The median of the times that `fit` predicts.
double TypicalOf(std::span<const TimingSample> samples, const RobustFit& fit);

// The sum of the squared residuals by `fit`, in units of `scale`; outliers count as if they were at
// the gate.
double CappedLoss(std::span<const TimingSample> samples, const RobustFit& fit, double scale);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_ROBUST_FIT_H_
