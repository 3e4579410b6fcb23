// A cost model for a few timings, some of which are of stragglers.
//
//   RobustFit fit = FitRobustly(samples);
//   fit.IsOutlier(sample);

#ifndef BATCHPLAN_SERVER_FITTING_ROBUST_FIT_H_
#define BATCHPLAN_SERVER_FITTING_ROBUST_FIT_H_

#include <span>

#include "server/fitting/normal_equations.h"
#include "server/fitting/timing_sample.h"

namespace batchplan {

// Residuals larger than so many scales are outliers; of normally distributed ones 1 in 16,000 is.
inline constexpr double kOutlierGate = 4;
// The scale of timings that fit all but perfectly.
inline constexpr double kLeastScale = 0.005;

struct RobustFit {
  // Milliseconds per token, per token squared and per micro-batch.
  Triple coefficients{};
  // The standard deviation of residuals as Residual() gives them, but for outliers.
  double scale = 1;
  // The median of what the samples should take.
  double typical_milliseconds = 0;

  double Predict(const TimingSample& sample) const;
  // The deviation that is expected of a sample, were `scale` 1: what it should take, and a
  // twentieth of what is typical, below which the clock's jitter matters more than the work.
  double Unit(const TimingSample& sample) const;
  // How far the sample is from the prediction, in units of Unit().
  double Residual(const TimingSample& sample) const;
  bool IsOutlier(const TimingSample& sample) const;
  // A sample as a row of the normal equations: the row, and the target, over Unit().
  Triple Row(const TimingSample& sample) const;
  double Target(const TimingSample& sample) const;

  friend bool operator==(const RobustFit&, const RobustFit&) = default;
};

// The fit of `samples`, at least one, all positive. Starts from least absolute deviations, found by
// iteratively reweighted least squares (E. J. Schlossmacher, "An iterative technique for absolute
// deviations curve fitting", JASA 68, 1973) from the median time per token; then, in turns, takes
// the scale from the median absolute deviation (F. R. Hampel, "The influence curve and its role in
// robust estimation", JASA 69, 1974) and solves for what is not an outlier, as IdentifiedFit does.
// Takes a microsecond or two a sample. Stragglers among up to a fifth of the samples hardly move
// it, unless one is the only sample of its kind: then that is what its kind takes.
RobustFit FitRobustly(std::span<const TimingSample> samples);

// The scale of the samples' residuals by `fit`, from their median absolute deviation.
double ScaleOf(std::span<const TimingSample> samples, const RobustFit& fit);

// The median of what `fit` predicts.
double TypicalOf(std::span<const TimingSample> samples, const RobustFit& fit);

// The squares of the samples' residuals by `fit`, in scales of `scale`, outliers counted as if they
// were at the gate.
double CappedLoss(std::span<const TimingSample> samples, const RobustFit& fit, double scale);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_ROBUST_FIT_H_
