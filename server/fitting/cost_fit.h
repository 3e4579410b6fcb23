// A job's cost model, milliseconds = (per_token * tokens + per_token_squared * squares) /
// context_parallel + per_microbatch + per_sequence * sequences + exchange * tokens *
// (context_parallel - 1) / context_parallel + (per_unit * load, for each) / context_parallel, from
// the timings of its micro-batches as they come, of context-parallel groups of one size or several.
// With one size the exchange can't be told from computation and is part of per_token.
//
//   CostFit fit;
//   for (const TimingSample& sample : report) AddSample(sample, fit);
//   if (std::optional<FittedCosts> costs = Costs(fit)) ... costs->per_token ...
//
// Recursive weighted least squares: a sample is folded into sums of a fixed size and forgotten
// (L. Ljung, T. Soderstrom, "Theory and practice of recursive identification", 1983). Its weight is
// that of its relative error, from its expected time, and fades by 1/2048 with each later sample.
// Besides, the latest kRecentSamples samples are kept:
//
// - The first ones are solved together, robustly (robust_fit.h), and only then folded, without
//   their outliers: a straggler among the first reports has no say.
// - Later ones are compared with their expected times, by the scale of the recent residuals and by
//   how sure the fit is of such a sample. So a straggler is left out, but not a micro-batch of a
//   new kind, nor one of the first kRefreshSamples or so of a new size of groups.
// - Every kRefreshSamples samples, coefficients and scale are computed anew from the sums, and the
//   latest 32 and then all recent samples are solved robustly on their own. If that explains them
//   much better than the sums do, the job has changed (another GPU, other software): the sums are
//   dropped and the fit starts from these samples. So it follows a change of all times by half
//   within 48 samples, one by a tenth within some hundred, and one that shows in few samples once
//   some five of the recent ones show it. A steady job hardly ever starts over.
//
// Sums are kept by size of context-parallel group, so that the exchange can be fitted
// (exchange_fit.h). Once all recent samples have one size, the sums of other sizes are dropped.
//
// The cost of a sequence is fitted while every sample in the fit says how many sequences it has.
// One that does not ends that at once; then kSaidSamples in a row that do, or a change as above
// among such samples, start the fit anew from the recent samples. If no sample says it, the fit
// equals one without sequences to the last bit.
//
// The cost of a load's unit is fitted in the same way, while every sample has the loads: SetLoads
// with other names ends that at once, and kSaidSamples in a row or a change start it again.
//
// Coefficients are finite and not negative; those that the samples do not identify are 0
// (IdentifiedFit). The fit is a function of the samples in their order, however they were reported.
// A value of up to 25 KiB. AddSample takes some 10 microseconds on average, with two loads some 30,
// nearly all of them in the refreshes.

#ifndef BATCHPLAN_SERVER_FITTING_COST_FIT_H_
#define BATCHPLAN_SERVER_FITTING_COST_FIT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/fitting/least_squares.h"
#include "server/fitting/robust_fit.h"

namespace batchplan {

inline constexpr size_t kRecentSamples = 64;
inline constexpr size_t kRefreshSamples = 16;
// Fewer samples give no costs. Among this many, stragglers at one in twenty are hardly ever enough
// to distort the first fit.
inline constexpr uint64_t kMinSamples = 2 * kRefreshSamples;
inline constexpr uint64_t kSaidSamples = 1024;

struct CostFit {
  // In order, the latest last.
  std::vector<TimingSample> recent;
  // Empty until kRecentSamples samples have been seen since the last start. The column of sequences
  // is 0 unless all samples in the sums say how many they have, those of loads unless all samples
  // have the loads.
  NormalEquations sums;
  // The sums by size of context-parallel group; empty if all rows are of the latest sample's size.
  SumsBySize sizes = {};
  // As of the last refresh.
  RobustFit model;
  // All samples ever added.
  uint64_t samples = 0;
  // The latest samples in a row that say how many sequences they have.
  uint64_t said = 0;
  // The names of the samples' loads, in their order; unique.
  std::vector<std::string> load_names = {};
  // The latest samples in a row that have these loads. No other sample has loads.
  uint64_t with_loads = 0;
  // Whether all samples in the sums have the loads.
  bool loads_in_sums = false;

  friend bool operator==(const CostFit&, const CostFit&) = default;
};

struct FittedCosts {
  // Milliseconds.
  double per_token = 0;
  double per_token_squared = 0;
  double per_microbatch = 0;
  double per_sequence = 0;
  // Of a unit of each load, in the order of their names.
  std::vector<double> per_unit = {};
  // By size of context-parallel groups above 1, ascending. Empty if nothing is exchanged, or if all
  // samples have one size, whose exchange is then part of per_token.
  std::vector<SizeExchange> exchange = {};
  // The sizes in the fit, ascending: those of `exchange`, and 1 if samples have it; without
  // `exchange` those of the samples.
  std::vector<double> context_sizes = {};
  // The root mean square of the residuals over the mean of the measured times, both of the recent
  // samples without outliers.
  double fit_error = 0;
  // Of the recent samples.
  double outlier_share = 0;
};

// Names the loads of later samples: at most kMaxFittedLoads unique names. With other names than
// before, the costs of loads start anew; in another order they go on.
void SetLoads(std::span<const std::string> names, CostFit& fit);

// Folds one sample in, with as many loads as were named, in the order of `fit.load_names`. All its
// values are positive and finite, except that sequences and loads may be 0; see step_report.h for
// limits.
void AddSample(const TimingSample& sample, CostFit& fit);

// The costs as of the last refresh; none for fewer than kMinSamples samples.
std::optional<FittedCosts> Costs(const CostFit& fit);

// The costs of `samples` alone, at least one, with as many loads each, solved robustly. For
// measurements that were made to be fitted: a dozen micro-batches of different kinds.
FittedCosts CostsOf(std::span<const TimingSample> samples);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_COST_FIT_H_
