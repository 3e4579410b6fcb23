// Costs of loads, fitted to timings of micro-batches that have them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "server/fitting/cost_fit.h"
#include "tests/server/fitting/timings.h"

namespace batchplan {
namespace {

using testing::CommonMicrobatch;
using testing::MultimodalMicrobatch;
using testing::RandomStream;
using testing::Timed;
using testing::TimedWithSequences;
using testing::TrueCosts;

// An encoder that uses about a third of the time.
const TrueCosts kEncoder = {.per_token = 0.01,
                            .per_token_squared = 0.08 / 24576,
                            .per_microbatch = 30,
                            .per_unit = {0.02, 0.4}};
const std::vector<std::string> kNames = {"patches", "frames"};

double RelativeError(double value, double truth) { return std::abs(value / truth - 1); }

using Generator = std::function<TimingSample(RandomStream&)>;

// A fit to `samples` samples of `next`, timed by `truth`.
CostFit FitOf(RandomStream& random, const TrueCosts& truth, const std::vector<std::string>& names,
              int samples, const Generator& next) {
  CostFit fit;
  SetLoads(names, fit);
  for (int i = 0; i < samples; ++i) AddSample(Timed(random, next(random), truth, {}), fit);
  return fit;
}

double Predicted(const FittedCosts& costs, const TimingSample& sample) {
  const TrueCosts fitted = {.per_token = costs.per_token,
                            .per_token_squared = costs.per_token_squared,
                            .per_microbatch = costs.per_microbatch,
                            .per_sequence = costs.per_sequence,
                            .per_unit = costs.per_unit};
  return fitted.Of(sample);
}

// The largest relative error of a prediction, over many samples of `next`.
double WorstPrediction(const FittedCosts& costs, const TrueCosts& truth, const Generator& next) {
  RandomStream random(99);
  double worst = 0;
  for (int i = 0; i < 200; ++i) {
    const TimingSample sample = next(random);
    worst = std::max(worst, RelativeError(Predicted(costs, sample), truth.Of(sample)));
  }
  return worst;
}

TimingSample Multimodal(RandomStream& random) { return MultimodalMicrobatch(random); }

TEST(LoadFitTest, EightHundredNoisyTimesGiveEachCoefficient) {
  double worst = 0;
  for (const uint64_t seed : testing::Seeds(30)) {
    RandomStream random(seed);
    const FittedCosts costs = *Costs(FitOf(random, kEncoder, kNames, 800, Multimodal));
    ASSERT_EQ(costs.per_unit.size(), 2U);
    worst = std::max({worst, RelativeError(costs.per_unit[0], kEncoder.per_unit[0]),
                      RelativeError(costs.per_unit[1], kEncoder.per_unit[1]),
                      RelativeError(costs.per_token, kEncoder.per_token),
                      RelativeError(costs.per_token_squared, kEncoder.per_token_squared),
                      RelativeError(costs.per_microbatch, kEncoder.per_microbatch)});
    EXPECT_LT(WorstPrediction(costs, kEncoder, Multimodal), 0.05) << seed;
  }
  EXPECT_LT(worst, 0.12);
  RecordProperty("worst_error", std::to_string(worst));
}

TEST(LoadFitTest, TheFirstThirtyTwoTimesPredictTheOthers) {
  for (const uint64_t seed : testing::Seeds(30)) {
    RandomStream random(seed);
    const FittedCosts costs = *Costs(FitOf(random, kEncoder, kNames, 32, Multimodal));
    EXPECT_LT(WorstPrediction(costs, kEncoder, Multimodal), 0.3) << seed;
  }
}

TEST(LoadFitTest, BesideSequencesBothAreFitted) {
  TrueCosts truth = kEncoder;
  truth.per_sequence = 2;
  RandomStream random(1);
  CostFit fit;
  SetLoads(kNames, fit);
  for (int i = 0; i < 1000; ++i) {
    AddSample(TimedWithSequences(random, MultimodalMicrobatch(random), truth, {}), fit);
  }
  const FittedCosts costs = *Costs(fit);
  EXPECT_LT(RelativeError(costs.per_sequence, 2), 0.1);
  EXPECT_LT(RelativeError(costs.per_unit[0], truth.per_unit[0]), 0.05);
  EXPECT_LT(RelativeError(costs.per_unit[1], truth.per_unit[1]), 0.1);
}

// Each of c ranks has its share of a load, as of tokens.
TEST(LoadFitTest, OfContextParallelRanksEachTakesItsPart) {
  for (const std::vector<double>& sizes : std::vector<std::vector<double>>{{4}, {1, 2, 8}}) {
    RandomStream random(2);
    const auto in_groups = [&sizes](RandomStream& stream) {
      TimingSample sample = MultimodalMicrobatch(stream);
      sample.context_parallel = stream.OneOf(sizes);
      return sample;
    };
    const FittedCosts costs = *Costs(FitOf(random, kEncoder, kNames, 1500, in_groups));
    EXPECT_LT(RelativeError(costs.per_unit[0], kEncoder.per_unit[0]), 0.1) << sizes.size();
    EXPECT_LT(RelativeError(costs.per_unit[1], kEncoder.per_unit[1]), 0.1) << sizes.size();
  }
}

TEST(LoadFitTest, OfLoadsInProportionOneHasTheCostOfBoth) {
  const auto in_proportion = [](RandomStream& random) {
    TimingSample sample = MultimodalMicrobatch(random);
    sample.loads[1] = sample.loads[0] / 256;
    return sample;
  };
  for (const uint64_t seed : testing::Seeds(30)) {
    RandomStream random(seed);
    const FittedCosts costs = *Costs(FitOf(random, kEncoder, kNames, 500, in_proportion));
    EXPECT_EQ(std::ranges::count(costs.per_unit, 0.0), 1) << seed;
    EXPECT_LT(WorstPrediction(costs, kEncoder, in_proportion), 0.05) << seed;
  }
}

TEST(LoadFitTest, ALoadThatNeverOccursCostsNothing) {
  const auto without_frames = [](RandomStream& random) {
    TimingSample sample = MultimodalMicrobatch(random);
    sample.loads[1] = 0;
    return sample;
  };
  for (const uint64_t seed : testing::Seeds(30)) {
    RandomStream random(seed);
    const FittedCosts costs = *Costs(FitOf(random, kEncoder, kNames, 500, without_frames));
    EXPECT_EQ(costs.per_unit[1], 0) << seed;
    EXPECT_LT(RelativeError(costs.per_unit[0], kEncoder.per_unit[0]), 0.06) << seed;
  }
}

// Equal to the last bit: a load that never occurs changes nothing.
TEST(LoadFitTest, LoadsThatNeverOccurLeaveTheFitAsItIs) {
  for (const uint64_t seed : testing::Seeds(20)) {
    RandomStream random(seed);
    CostFit with;
    CostFit without;
    SetLoads(kNames, with);
    for (int i = 0; i < 700; ++i) {
      TimingSample sample =
          Timed(random, CommonMicrobatch(random), {.per_token = 0.01, .per_microbatch = 30}, {});
      AddSample(sample, without);
      sample.loads = {0, 0};
      AddSample(sample, with);
      ASSERT_EQ(with.model, without.model) << seed << " " << i;
      ASSERT_EQ(with.sums, without.sums) << seed << " " << i;
    }
  }
}

TEST(LoadFitTest, ALoadInProportionToTokensIsPartOfThese) {
  const auto of_tokens = [](RandomStream& random) {
    TimingSample sample = CommonMicrobatch(random);
    sample.loads = {sample.tokens / 4};
    return sample;
  };
  TrueCosts truth = kEncoder;
  truth.per_unit = {0.02};
  RandomStream random(3);
  const FittedCosts costs = *Costs(FitOf(random, truth, {"patches"}, 500, of_tokens));
  EXPECT_EQ(costs.per_unit[0], 0);
  EXPECT_LT(RelativeError(costs.per_token, truth.per_token + 0.02 / 4), 0.05);
  EXPECT_LT(WorstPrediction(costs, truth, of_tokens), 0.05);
}

// A load may be the caller's own cost of each micro-batch.
TEST(LoadFitTest, ALoadCanHaveAllOfTheCost) {
  const auto own = [](RandomStream& random) {
    TimingSample sample = CommonMicrobatch(random);
    sample.loads = {0.5 * sample.tokens + std::sqrt(sample.tokens_squared) * 3};
    return sample;
  };
  const TrueCosts truth = {.per_unit = {0.01}};
  RandomStream random(4);
  const FittedCosts costs = *Costs(FitOf(random, truth, {"cost"}, 800, own));
  EXPECT_LT(RelativeError(costs.per_unit[0], 0.01), 0.1);
  EXPECT_LT(WorstPrediction(costs, truth, own), 0.05);
}

TEST(LoadFitTest, LoadsThatCostNothingHardlyEverSeemTo) {
  TrueCosts truth = kEncoder;
  truth.per_unit = {0, 0};
  uint64_t seen = 0;
  for (const uint64_t seed : testing::Seeds(100)) {
    RandomStream random(seed);
    const FittedCosts costs = *Costs(FitOf(random, truth, kNames, 400, Multimodal));
    seen += costs.per_unit[0] > 0 || costs.per_unit[1] > 0;
    EXPECT_LT(WorstPrediction(costs, truth, Multimodal), 0.1) << seed;
  }
  EXPECT_LE(seen, 1 + testing::Cases(100) / 20);
}

TEST(LoadFitTest, ALoadThatComesLateIsLearntAndNotTakenForStragglers) {
  for (const uint64_t seed : testing::Seeds(20)) {
    RandomStream random(seed);
    CostFit fit;
    SetLoads(kNames, fit);
    for (int i = 0; i < 1000; ++i) {
      TimingSample sample = CommonMicrobatch(random);
      sample.loads = {0, 0};
      AddSample(Timed(random, sample, kEncoder, {}), fit);
    }
    EXPECT_EQ(Costs(fit)->per_unit, std::vector<double>({0, 0}));
    for (int i = 0; i < 96; ++i) {
      AddSample(Timed(random, MultimodalMicrobatch(random), kEncoder, {}), fit);
    }
    EXPECT_LT(RelativeError(Costs(fit)->per_unit[0], kEncoder.per_unit[0]), 0.2) << seed;
    EXPECT_LT(WorstPrediction(*Costs(fit), kEncoder, Multimodal), 0.3) << seed;
  }
}

TEST(LoadFitTest, OtherNamesEndTheirCostsAndStartThemAnew) {
  for (const uint64_t seed : testing::Seeds(20)) {
    RandomStream random(seed);
    CostFit fit = FitOf(random, kEncoder, kNames, 500, Multimodal);
    SetLoads(std::vector<std::string>{"images", "frames"}, fit);
    EXPECT_EQ(Costs(fit)->per_unit, std::vector<double>({0, 0}));
    for (const TimingSample& sample : fit.recent) EXPECT_TRUE(sample.loads.empty());
    for (int i = 0; i < 128; ++i) {
      AddSample(Timed(random, MultimodalMicrobatch(random), kEncoder, {}), fit);
    }
    EXPECT_LT(WorstPrediction(*Costs(fit), kEncoder, Multimodal), 0.3) << seed;
    EXPECT_LT(RelativeError(Costs(fit)->per_unit[0], kEncoder.per_unit[0]), 0.3) << seed;
  }
}

TEST(LoadFitTest, NamesInAnotherOrderAreTheSame) {
  RandomStream random(5);
  CostFit fit = FitOf(random, kEncoder, kNames, 500, Multimodal);
  const CostFit before = fit;
  SetLoads(std::vector<std::string>{"frames", "patches"}, fit);
  EXPECT_EQ(fit, before);
}

// A small cost shows once many samples have the load.
TEST(LoadFitTest, LoadsThatExplainLittleAreFittedOnceManySamplesHaveThem) {
  TrueCosts truth = kEncoder;
  truth.per_unit = {0.001, 0};
  RandomStream random(6);
  CostFit fit = FitOf(random, truth, {}, 3000, [](RandomStream& stream) {
    TimingSample sample = CommonMicrobatch(stream);
    sample.loads = {0, 0};
    return sample;
  });
  ASSERT_TRUE(fit.load_names.empty());
  SetLoads(kNames, fit);
  for (uint64_t i = 0; i < kSaidSamples + kRecentSamples + 1500; ++i) {
    AddSample(Timed(random, MultimodalMicrobatch(random), truth, {}), fit);
  }
  EXPECT_TRUE(fit.loads_in_sums);
  EXPECT_LT(RelativeError(Costs(fit)->per_unit[0], 0.001), 0.5);
}

TEST(LoadFitTest, ASteadyJobOfEightLoadsHardlyEverStartsOver) {
  TrueCosts truth = kEncoder;
  truth.per_unit = {0.02, 0.4, 0.01, 0, 0.3, 0, 0.05, 0.001};
  std::vector<std::string> names;
  for (size_t i = 0; i < truth.per_unit.size(); ++i) names.push_back(std::to_string(i));
  uint64_t starts = 0;
  for (const uint64_t seed : testing::Seeds(10)) {
    RandomStream random(seed);
    CostFit fit;
    SetLoads(names, fit);
    double weight = 0;
    for (int i = 0; i < 3000; ++i) {
      TimingSample sample = CommonMicrobatch(random);
      sample.loads.resize(names.size());
      for (double& load : sample.loads) load = 256.0 * static_cast<double>(random.Between(0, 8));
      AddSample(Timed(random, sample, truth, {}), fit);
      starts += fit.sums.weight < weight * 0.999;
      weight = fit.sums.weight;
    }
    for (const size_t load : {0, 1, 4}) {
      EXPECT_LT(RelativeError(Costs(fit)->per_unit[load], truth.per_unit[load]), 0.15) << seed;
    }
  }
  EXPECT_LE(starts, testing::Cases(10) / 10);
}

// Times that no model explains, with loads at the limits of reports.
TEST(LoadFitTest, WhateverIsReportedCoefficientsAreFiniteAndNotNegative) {
  for (const uint64_t seed : testing::Seeds(50)) {
    RandomStream random(seed);
    std::vector<std::string> names = {"a", "b", "c"};
    CostFit fit;
    for (int i = 0; i < 300; ++i) {
      if (random.Chance(1)) names.push_back(std::to_string(i));
      names.resize(std::min<size_t>(names.size(), kMaxFittedLoads));
      if (random.Chance(1) && !names.empty()) names.pop_back();
      SetLoads(names, fit);
      TimingSample sample = CommonMicrobatch(random);
      if (random.Chance(50)) sample.sequences = 0;
      sample.milliseconds = testing::LogUniform(random, -9.9, 26.3);
      sample.context_parallel = random.OneOf<double>({1, 1, 65536});
      sample.loads.resize(names.size());
      for (double& load : sample.loads) load = random.OneOf<double>({0, 1e-20, 1, 1e30});
      AddSample(sample, fit);
      const std::optional<FittedCosts> costs = Costs(fit);
      if (!costs) continue;
      for (const double value : costs->per_unit) {
        ASSERT_TRUE(value >= 0 && value < std::numeric_limits<double>::infinity()) << seed;
      }
      ASSERT_TRUE(std::isfinite(costs->fit_error)) << seed;
    }
  }
}

TEST(LoadFitTest, ADozenExactTimesGiveTheCostsAtOnce) {
  const TrueCosts truth = {
      .per_token = 0.02, .per_token_squared = 4e-6, .per_microbatch = 12, .per_unit = {0.05}};
  std::vector<TimingSample> samples;
  for (const double length : {512, 4096, 8192}) {
    for (const double sequences : {1, 4}) {
      for (const double patches : {0, 4096}) {
        TimingSample sample = {.tokens = length * sequences,
                               .tokens_squared = length * length * sequences,
                               .loads = {patches}};
        sample.milliseconds = truth.Of(sample);
        samples.push_back(sample);
      }
    }
  }
  const FittedCosts costs = CostsOf(samples);
  EXPECT_LT(RelativeError(costs.per_token, truth.per_token), 1e-6);
  EXPECT_LT(RelativeError(costs.per_token_squared, truth.per_token_squared), 1e-6);
  EXPECT_LT(RelativeError(costs.per_microbatch, truth.per_microbatch), 1e-6);
  ASSERT_EQ(costs.per_unit.size(), 1U);
  EXPECT_LT(RelativeError(costs.per_unit[0], 0.05), 1e-6);
}

}  // namespace
}  // namespace batchplan
