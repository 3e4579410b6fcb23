// A job's cost model, milliseconds = (per_token * tokens + per_token_squared * squares) /
// context_parallel + per_microbatch + per_sequence * sequences + exchange * tokens *
// (context_parallel - 1) / context_parallel + (per_unit * load, for each) / context_parallel, from
// the timings of its micro-batches as they come, of context-parallel groups of one size or several.
// Of one size, whose ranks' exchange can't be told from what they compute, it is part of per_token.
//
//   CostFit fit;
//   for (const TimingSample& sample : report) AddSample(sample, fit);
//   if (std::optional<FittedCosts> costs = Costs(fit)) ... costs->per_token ...
//
// Recursive weighted least squares: a sample is folded into sums of a fixed size and forgotten
// (L. Ljung, T. Soderstrom, "Theory and practice of recursive identification", 1983). It counts by
// what is expected of it, so that each adds what its relative error is worth, and fades by 1/2048
// with each later one. Around that stand a few of the latest samples, kRecentSamples:
//
// - The first ones are solved together, robustly (robust_fit.h), and only then folded, without
//   their outliers: a straggler among the first reports has no say.
// - Later ones are compared with what the fit expects, by the scale of the recent residuals and by
//   how sure the fit is of such a sample: a straggler is left out, a micro-batch of a new kind not,
//   and none of the first kRefreshSamples or so of a new size of groups.
// - Every kRefreshSamples samples, coefficients and scale are taken anew from the sums, and the
//   latest 32 and then all recent samples are solved robustly on their own. If that explains them
//   much better than the sums do, then the job has changed (another GPU, other software): the sums
//   are given up and the fit starts from these samples. A change of all times by half is so
//   followed within 48 samples, one of a tenth within some hundred, and one that shows in few
//   samples only once some five of the recent ones show it. A steady job hardly ever starts over.
//
// Sums are kept by size of context-parallel group, so that what ranks exchange can be told
// (exchange_fit.h), until all recent samples have one size: those of others are then given up.
//
// The cost of a sequence is fitted where every sample that the fit rests on says how many sequences
// it has. One that does not ends that, at once; then kSaidSamples in a row that do, or a change as
// above among such samples, start the fit anew from the recent ones. Where no sample says it the
// fit is the same as one that knows of no sequences, to the last bit.
//
// What a unit of a load costs is fitted in the same way, where every sample has the loads: SetLoads
// with other names than before ends that, at once, and kSaidSamples in a row or a change start it.
//
// Coefficients are finite and not negative, and those that the samples can't tell apart are 0
// (IdentifiedFit). A function of the samples in their order, however they were reported.
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
// Fewer than these give no costs. Of so many, stragglers at one in twenty hardly ever are so many
// that they distort the first fit.
inline constexpr uint64_t kMinSamples = 2 * kRefreshSamples;
inline constexpr uint64_t kSaidSamples = 1024;

struct CostFit {
  // In order, the latest last.
  std::vector<TimingSample> recent;
  // Empty as long as fewer than kRecentSamples samples have been seen since the last start. The
  // column of sequences is 0 unless all samples in the sums say how many they have, those of loads
  // unless all have these.
  NormalEquations sums;
  // The same by size of context-parallel group; empty where all rows are of the latest sample's
  // size.
  SumsBySize sizes = {};
  // As of the last refresh.
  RobustFit model;
  // All that were ever added.
  uint64_t samples = 0;
  // Of these the latest in a row that say how many sequences they have.
  uint64_t said = 0;
  // What the loads of samples are called, in their order; unique.
  std::vector<std::string> load_names = {};
  // Of the samples the latest in a row that have them. No other sample has loads.
  uint64_t with_loads = 0;
  // Whether all samples in the sums have them.
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
  // Of each size of context-parallel groups above 1, ascending; empty where all samples have one
  // size, whose exchange is then part of per_token, and where nothing is exchanged.
  std::vector<SizeExchange> exchange = {};
  // The sizes that the costs rest on, ascending: those of `exchange`, and 1 where samples have it;
  // without `exchange` those of the samples.
  std::vector<double> context_sizes = {};
  // Over the recent samples without outliers: the root mean square of the residuals over the mean
  // of the measured times.
  double fit_error = 0;
  // Of the recent samples.
  double outlier_share = 0;
};

// What the loads of the samples from now on are called, at most kMaxFittedLoads unique names. Where
// these are others than before, the costs of loads start anew; in another order they go on.
void SetLoads(std::span<const std::string> names, CostFit& fit);

// Folds one sample in, with as many loads as were named, in the order of `fit.load_names`. All of
// its values are positive and finite, but that its sequences and loads may be 0; see step_report.h
// for limits.
void AddSample(const TimingSample& sample, CostFit& fit);

// The costs as of the last refresh; none for fewer than kMinSamples samples.
std::optional<FittedCosts> Costs(const CostFit& fit);

// The costs of `samples` alone, at least one, with as many loads each, solved robustly. For
// measurements that were made to be fitted: a dozen micro-batches of different kinds.
FittedCosts CostsOf(std::span<const TimingSample> samples);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_COST_FIT_H_
