// A cost model for a few timings, some of which are of stragglers, in those terms that the timings
// can tell apart.
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
  // How many they are; 0: not known.
  double sequences = 0;
  // The ranks that share its tokens; milliseconds are those of each.
  double context_parallel = 1;
  // Sums over its sequences of what they bring beside tokens, at most kMaxFittedLoads; empty: not
  // known.
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

// The columns of so many loads.
inline constexpr Columns LoadColumns(size_t loads) {
  return kAllLoads & ((1U << (kFirstLoad + loads)) - 1);
}

// What each coefficient is multiplied with: tokens and squares over the ranks that share them, 1,
// sequences, which every one of these ranks has all of, and loads over the ranks.
PerColumn TermsOf(const TimingSample& sample);

// The columns that the samples have: those of sequences unless any sample does not say how many it
// has, and those of loads unless any sample's are not known. All samples have as many loads.
Columns ColumnsOf(std::span<const TimingSample> samples);

// The non-negative coefficients of least squared error, in columns out of `known`, which are those
// without sequences, and maybe that of sequences and those of loads. A set of columns is identified
// if the standard error of each one's share of the time is below a tenth of the time; `scale` is
// the standard deviation of a target of weight 1, targets being times relative to what they should
// be.
//
// With all three columns without sequences identified all are used. Otherwise a pair is: of the
// identified ones the first of tokens and squares, tokens and micro-batch, squares and micro-batch,
// unless a later one fits better by more than chance (4 of its squared errors' variances).
// Otherwise tokens alone.
//
// Sequences come in only where that can be told from the rest: the first identified set with them,
// larger ones first, that fits better than all before it by more than hardly ever happens by chance
// (9 variances). Where all sequences are of one length, or all micro-batches have as many,
// sequences beside tokens or beside the micro-batch are not identified, and in their place explain
// no more: the simpler model stays.
//
// Then loads, one after the other, each time the one with which the fit is best, as long as it is
// better by as much: beside all other columns, or where it is not identified beside these, beside
// the most of those before loads beside which it is. Of loads in proportion to each other one so
// has the cost of all, and a load in proportion to tokens has none. A load that did not occur has
// none.
//
// So sequences all of one length, whose squares tell no more than their tokens, cost by the token,
// and so do micro-batches that are all alike; where all micro-batches are equally full, nothing is
// put down to the micro-batch. Constant time: some microseconds, and more with each load.
PerColumn IdentifiedFit(const NormalEquations& equations, double scale, Columns known);

// Residuals larger than so many scales are outliers; of normally distributed ones 1 in 16,000 is.
inline constexpr double kOutlierGate = 4;
// The scale of timings that fit all but perfectly.
inline constexpr double kLeastScale = 0.005;

// An exchange that is above 0 by fewer standard errors is taken for nothing.
inline constexpr double kCertaintyOfExchange = 3;

struct RobustFit {
  // Milliseconds per token, per token squared, per micro-batch, per sequence and per unit of each
  // load.
  PerColumn coefficients{};
  // What context-parallel ranks exchange, of each size above 1 that was seen; empty where the sizes
  // can't tell, or nothing is exchanged.
  std::vector<SizeExchange> exchange = {};
  // The standard deviation of residuals as Residual() gives them, but for outliers.
  double scale = 1;
  // The median of what the samples should take.
  double typical_milliseconds = 0;

  // In milliseconds: the product of the coefficients with TermsOf(sample), and the exchange.
  double Predict(const TimingSample& sample) const;
  // The deviation that is expected of a sample, were `scale` 1: what it should take, and a
  // twentieth of what is typical, below which the clock's jitter matters more than the work.
  double Unit(const TimingSample& sample) const;
  // How far the sample is from the prediction, in units of Unit().
  double Residual(const TimingSample& sample) const;
  bool IsOutlier(const TimingSample& sample) const;
  // A sample as a row of the normal equations: the row, and the target, over Unit().
  PerColumn Row(const TimingSample& sample) const;
  double Target(const TimingSample& sample) const;
  // Takes coefficients, in columns out of `columns`, and exchange from sums of one size or several,
  // by IdentifiedFit and FitShared.
  void SolveFrom(std::span<const SizeSums> sizes, Columns columns);

  friend bool operator==(const RobustFit&, const RobustFit&) = default;
};

// The fit of `samples`, at least one, all positive, in ColumnsOf(samples) or fewer. Starts from
// least absolute deviations, found by iteratively reweighted least squares (E. J. Schlossmacher,
// "An iterative technique for absolute deviations curve fitting", JASA 68, 1973) from the median
// time per token; then, in turns, takes the scale from the median absolute deviation (F. R. Hampel,
// "The influence curve and its role in robust estimation", JASA 69, 1974) and solves for what is
// not an outlier, as IdentifiedFit does, with the exchange of groups of several sizes as FitShared
// finds it. Takes a microsecond or two a sample, and more with loads. Stragglers among up
// to a fifth of the samples hardly move it, unless one is the only sample of its kind: then that is
// what its kind takes.
RobustFit FitRobustly(std::span<const TimingSample> samples, Columns columns);
inline RobustFit FitRobustly(std::span<const TimingSample> samples) {
  return FitRobustly(samples, ColumnsOf(samples));
}

// The scale of the samples' residuals by `fit`, from their median absolute deviation.
double ScaleOf(std::span<const TimingSample> samples, const RobustFit& fit);

// The median of what `fit` predicts.
double TypicalOf(std::span<const TimingSample> samples, const RobustFit& fit);

// The squares of the samples' residuals by `fit`, in scales of `scale`, outliers counted as if they
// were at the gate.
double CappedLoss(std::span<const TimingSample> samples, const RobustFit& fit, double scale);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_ROBUST_FIT_H_
