#include "server/fitting/cost_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/server/fitting/timings.h"

namespace batchplan {
namespace {

using testing::CommonMicrobatch;
using testing::LogUniform;
using testing::Microbatch;
using testing::RandomStream;
using testing::Scatter;
using testing::Seeds;
using testing::Timed;
using testing::TimedWithSequences;
using testing::TrueCosts;
using testing::VariedMicrobatch;

constexpr int kReports = 200;
constexpr int kMicrobatchesPerReport = 4;

// The relative size of linear and square work in the planner's default.
constexpr double kSquareShare = 1.0 / 24576;

// Squares are twice, four and eight times as expensive compared with tokens as by default, so that
// all coefficients show in VariedMicrobatch. On a slow device and on a fast one.
const std::vector<TrueCosts>& Models() {
  static const std::vector<TrueCosts> models = {
      {.per_token = 0.01, .per_token_squared = 0.08 * kSquareShare, .per_microbatch = 30},
      {.per_token = 0.08, .per_token_squared = 0.16 * kSquareShare, .per_microbatch = 200},
      {.per_token = 0.0005, .per_token_squared = 0.002 * kSquareShare, .per_microbatch = 2},
      {.per_token = 0.001, .per_token_squared = 0.008 * kSquareShare, .per_microbatch = 8},
  };
  return models;
}

double RelativeError(double value, double truth) { return std::abs(value / truth - 1); }

// The largest relative error of a prediction, over many micro-batches.
double WorstPrediction(const FittedCosts& costs, const TrueCosts& truth) {
  const TrueCosts fitted = {.per_token = costs.per_token,
                            .per_token_squared = costs.per_token_squared,
                            .per_microbatch = costs.per_microbatch,
                            .per_sequence = costs.per_sequence};
  RandomStream random(99);
  double worst = 0;
  for (int i = 0; i < 200; ++i) {
    const TimingSample sample = CommonMicrobatch(random);
    worst = std::max(worst, RelativeError(fitted.Of(sample), truth.Of(sample)));
  }
  return worst;
}

TEST(CostFitTest, TwoHundredReportsGiveEachCoefficientWithinTwoPercent) {
  double worst = 0;
  uint64_t cases = 0;
  uint64_t misses = 0;
  for (const TrueCosts& truth : Models()) {
    for (const uint64_t seed : testing::Seeds(50)) {
      RandomStream random(seed);
      const Scatter scatter = {.noise = 0.03 + 0.02 * random.Uniform(), .stragglers = 0.05};
      CostFit fit;
      for (int i = 0; i < kReports * kMicrobatchesPerReport; ++i) {
        AddSample(Timed(random, VariedMicrobatch(random), truth, scatter), fit);
      }
      const std::optional<FittedCosts> costs = Costs(fit);
      ASSERT_TRUE(costs.has_value());
      const double error =
          std::max({RelativeError(costs->per_token, truth.per_token),
                    RelativeError(costs->per_token_squared, truth.per_token_squared),
                    RelativeError(costs->per_microbatch, truth.per_microbatch)});
      worst = std::max(worst, error);
      EXPECT_LT(error, 0.03) << seed;
      ++cases;
      misses += error >= 0.02;
    }
  }
  // Two percent are four standard errors; a few of many cases exceed them.
  EXPECT_LE(misses, cases / 500);
  RecordProperty("worst_error", std::to_string(worst));
}

TEST(CostFitTest, ItIsAsGoodAsLeastSquaresThatKnowTheStragglers) {
  std::vector<TrueCosts> models = Models();
  // Attention hardly shows, so its coefficient can't be known within a few percent.
  models.push_back(
      {.per_token = 0.01, .per_token_squared = 0.01 / 8 * kSquareShare, .per_microbatch = 30});
  for (const TrueCosts& truth : models) {
    PerColumn squares{};
    PerColumn squares_knowing{};
    for (const uint64_t seed : testing::Seeds(30)) {
      RandomStream random(seed);
      CostFit fit;
      NormalEquations knowing;
      for (int i = 0; i < kReports * kMicrobatchesPerReport; ++i) {
        const TimingSample sample = Timed(random, VariedMicrobatch(random), truth, {});
        AddSample(sample, fit);
        const double unit = truth.Of(sample);
        if (sample.milliseconds > 1.5 * unit) continue;
        knowing.Add({sample.tokens / unit, sample.tokens_squared / unit, 1 / unit, 0},
                    sample.milliseconds / unit, 1);
      }
      const PerColumn solution = knowing.Solve(kWithoutSequences).value();
      const PerColumn expected = {truth.per_token, truth.per_token_squared, truth.per_microbatch};
      for (size_t j = 0; j < 3; ++j) {
        squares[j] += std::pow(fit.model.coefficients[j] / expected[j] - 1, 2);
        squares_knowing[j] += std::pow(solution[j] / expected[j] - 1, 2);
      }
    }
    for (size_t j = 0; j < 3; ++j) {
      EXPECT_LT(std::sqrt(squares[j]), 1.15 * std::sqrt(squares_knowing[j])) << j;
    }
  }
}

TEST(CostFitTest, TheFitErrorIsThatOfTheRecentSamplesWithoutStragglers) {
  const TrueCosts truth = Models()[1];
  for (const uint64_t seed : testing::Seeds(50)) {
    RandomStream random(seed);
    CostFit fit;
    for (int i = 0; i < 400; ++i) {
      AddSample(Timed(random, CommonMicrobatch(random), truth, {}), fit);
    }
    double squares = 0;
    double measured = 0;
    double stragglers = 0;
    for (const TimingSample& sample : fit.recent) {
      if (sample.milliseconds > 1.5 * truth.Of(sample)) {
        ++stragglers;
        continue;
      }
      squares += std::pow(sample.milliseconds - truth.Of(sample), 2);
      measured += sample.milliseconds;
    }
    const double kept = kRecentSamples - stragglers;
    const FittedCosts costs = *Costs(fit);
    EXPECT_NEAR(costs.fit_error, std::sqrt(squares * kept) / measured, 0.03) << seed;
    EXPECT_NEAR(costs.outlier_share, stragglers / kRecentSamples, 0.02) << seed;
  }
}

TEST(CostFitTest, TheFirstFitIsNotSpoiledByStragglersAmongTheFirstSamples) {
  uint64_t cases = 0;
  uint64_t misses = 0;
  for (const TrueCosts& truth : Models()) {
    for (const uint64_t seed : testing::Seeds(200)) {
      RandomStream random(seed);
      CostFit fit;
      // Four of the first seven are as bad as possible, the others are not.
      for (uint64_t i = 0; i < kMinSamples; ++i) {
        TimingSample sample =
            Timed(random, CommonMicrobatch(random), truth, {.noise = 0.04, .stragglers = 0});
        if (i < 7 && i % 2 == 0) sample.milliseconds *= 10;
        EXPECT_FALSE(Costs(fit).has_value());
        AddSample(sample, fit);
      }
      const std::optional<FittedCosts> costs = Costs(fit);
      ASSERT_TRUE(costs.has_value());
      ++cases;
      misses += WorstPrediction(*costs, truth) > 0.4 || costs->outlier_share < 4.0 / kMinSamples;
    }
  }
  // In very many cases, stragglers alone make a coefficient show once.
  EXPECT_LE(misses, cases / 1000);
}

TEST(CostFitTest, ItFollowsAnotherDeviceWithin64Samples) {
  uint64_t cases = 0;
  uint64_t misses = 0;
  for (const double factor : {0.3, 0.5, 1.5, 3.0, 8.0}) {
    for (const uint64_t seed : testing::Seeds(40)) {
      RandomStream random(seed);
      const TrueCosts& before = Models()[seed % Models().size()];
      const TrueCosts after = {.per_token = factor * before.per_token,
                               .per_token_squared = factor * before.per_token_squared,
                               .per_microbatch = factor * before.per_microbatch};
      const Scatter scatter;
      CostFit fit;
      const uint64_t change = random.Between(100, 600);
      for (uint64_t i = 0; i < change; ++i) {
        AddSample(Timed(random, CommonMicrobatch(random), before, scatter), fit);
      }
      for (uint64_t i = 0; i < 64; ++i) {
        AddSample(Timed(random, CommonMicrobatch(random), after, scatter), fit);
      }
      ++cases;
      misses += WorstPrediction(*Costs(fit), after) > 0.3;
    }
  }
  EXPECT_LE(misses, cases / 1000);
}

// Only attention becomes slower, which one micro-batch in six shows.
TEST(CostFitTest, ItFollowsAChangeThatFewMicrobatchesShow) {
  const TrueCosts before = {
      .per_token = 0.01, .per_token_squared = 0.01 * kSquareShare, .per_microbatch = 30};
  TrueCosts after = before;
  after.per_token_squared *= 3;
  for (const uint64_t seed : testing::Seeds(40)) {
    RandomStream random(seed);
    const auto draw = [&](const TrueCosts& truth) {
      const double mean = random.Uniform() < 1.0 / 6 ? 24000 : 500;
      return Timed(random, Microbatch(random, 32768, mean), truth, {});
    };
    CostFit fit;
    for (int i = 0; i < 400; ++i) AddSample(draw(before), fit);
    for (int i = 0; i < 160; ++i) AddSample(draw(after), fit);
    EXPECT_LT(RelativeError(Costs(fit)->per_token_squared, after.per_token_squared), 0.2) << seed;
  }
}

// A micro-batch unlike all earlier ones is no straggler, however long it lasts.
TEST(CostFitTest, ItLearnsFromKindsOfMicrobatchesThatCameLate) {
  const TrueCosts truth = Models()[1];
  for (const uint64_t seed : testing::Seeds(40)) {
    RandomStream random(seed);
    const Scatter scatter = {.noise = 0.04, .stragglers = 0};
    CostFit fit;
    for (int i = 0; i < 480; ++i) {
      const double budget = LogUniform(random, 10, 15);
      AddSample(Timed(random, Microbatch(random, budget, 300), truth, scatter), fit);
    }
    // One in fifty.
    for (int i = 0; i < 400; ++i) {
      const double mean = i % 50 == 0 ? 30000 : 300;
      AddSample(Timed(random, Microbatch(random, 32768, mean), truth, scatter), fit);
    }
    EXPECT_LT(RelativeError(Costs(fit)->per_token_squared, truth.per_token_squared), 0.15) << seed;
  }
}

TEST(CostFitTest, ASteadyJobNeverStartsOver) {
  for (const uint64_t seed : testing::Seeds(20)) {
    RandomStream random(seed);
    CostFit fit;
    const TrueCosts& truth = Models()[seed % Models().size()];
    double weight = 0;
    for (int i = 0; i < 3000; ++i) {
      AddSample(Timed(random, VariedMicrobatch(random), truth, {}), fit);
      ASSERT_GE(fit.sums.weight, weight * 0.999) << seed << " " << i;
      weight = fit.sums.weight;
    }
    EXPECT_LE(fit.sums.weight, 2048);
    EXPECT_LE(fit.recent.size(), kRecentSamples);
  }
}

TEST(CostFitTest, SequencesOfOneLengthCostByTheToken) {
  RandomStream random(1);
  CostFit fit;
  const TrueCosts truth = Models()[0];
  for (int i = 0; i < 500; ++i) {
    const auto count = static_cast<double>(random.Between(1, 32));
    AddSample(
        Timed(random, {.tokens = 1024 * count, .tokens_squared = 1024 * 1024 * count}, truth, {}),
        fit);
  }
  const FittedCosts costs = *Costs(fit);
  EXPECT_EQ(costs.per_token_squared, 0);
  EXPECT_LT(RelativeError(costs.per_token, truth.per_token + 1024 * truth.per_token_squared), 0.02);
  EXPECT_LT(RelativeError(costs.per_microbatch, truth.per_microbatch), 0.05);
}

TEST(CostFitTest, FullMicrobatchesCostNothingButTheirSequences) {
  RandomStream random(1);
  CostFit fit;
  const TrueCosts truth = Models()[0];
  for (int i = 0; i < 500; ++i) {
    TimingSample sample = Microbatch(random, 16384, LogUniform(random, 7, 13));
    sample.tokens = 16384;
    AddSample(Timed(random, sample, truth, {}), fit);
  }
  const FittedCosts costs = *Costs(fit);
  EXPECT_EQ(costs.per_microbatch, 0);
  EXPECT_LT(RelativeError(costs.per_token, truth.per_token + truth.per_microbatch / 16384), 0.02);
  EXPECT_LT(RelativeError(costs.per_token_squared, truth.per_token_squared), 0.1);
}

TEST(CostFitTest, MicrobatchesThatAreAllAlikeCostByTheToken) {
  CostFit fit;
  for (int i = 0; i < 300; ++i) {
    AddSample({.tokens = 4096, .tokens_squared = 4096.0 * 512, .milliseconds = 100}, fit);
  }
  const FittedCosts costs = *Costs(fit);
  EXPECT_NEAR(costs.per_token, 100.0 / 4096, 1e-12);
  EXPECT_EQ(costs.per_token_squared, 0);
  EXPECT_EQ(costs.per_microbatch, 0);
  EXPECT_NEAR(costs.fit_error, 0, 1e-9);
}

// Models whose sequences cost as much as a hundred tokens.
std::vector<TrueCosts> ModelsWithSequences() {
  std::vector<TrueCosts> models = Models();
  for (TrueCosts& model : models) model.per_sequence = 100 * model.per_token;
  return models;
}

TEST(CostFitTest, WhereAllSaySequencesWhatTheyCostIsFitted) {
  for (const TrueCosts& truth : ModelsWithSequences()) {
    for (const uint64_t seed : testing::Seeds(25)) {
      RandomStream random(seed);
      CostFit fit;
      for (int i = 0; i < kReports * kMicrobatchesPerReport; ++i) {
        AddSample(TimedWithSequences(random, VariedMicrobatch(random), truth, {}), fit);
      }
      const FittedCosts costs = *Costs(fit);
      EXPECT_LT(RelativeError(costs.per_sequence, truth.per_sequence), 0.1) << seed;
      EXPECT_LT(RelativeError(costs.per_token, truth.per_token), 0.05) << seed;
      EXPECT_LT(RelativeError(costs.per_token_squared, truth.per_token_squared), 0.05) << seed;
      EXPECT_LT(RelativeError(costs.per_microbatch, truth.per_microbatch), 0.05) << seed;
    }
  }
}

TEST(CostFitTest, SequencesThatCostNothingLeaveTheFitAsItIs) {
  uint64_t cases = 0;
  uint64_t misses = 0;
  for (const TrueCosts& truth : Models()) {
    for (const uint64_t seed : testing::Seeds(25)) {
      RandomStream random(seed);
      CostFit said;
      CostFit unsaid;
      for (int i = 0; i < kReports * kMicrobatchesPerReport; ++i) {
        TimingSample sample = TimedWithSequences(random, VariedMicrobatch(random), truth, {});
        AddSample(sample, said);
        sample.sequences = 0;
        AddSample(sample, unsaid);
      }
      const FittedCosts costs = *Costs(said);
      ++cases;
      misses += costs.per_sequence > 0;
      // If sequences seem to cost something by chance, it is little.
      EXPECT_LT(costs.per_sequence, 10 * truth.per_token) << seed;
      if (costs.per_sequence > 0) continue;
      EXPECT_NEAR(costs.per_token, Costs(unsaid)->per_token, 0.02 * truth.per_token) << seed;
    }
  }
  EXPECT_LE(misses, 1 + cases / 50);
}

// With one length, or equally many in each micro-batch, a model without sequences is as good.
TEST(CostFitTest, SequencesThatCanNotBeToldFromOthersCostNothing) {
  const TrueCosts truth = ModelsWithSequences()[0];
  for (const bool of_one_length : {true, false}) {
    RandomStream random(1);
    CostFit said;
    CostFit unsaid;
    for (int i = 0; i < 500; ++i) {
      const double count = of_one_length ? static_cast<double>(random.Between(1, 32)) : 8;
      const double length = of_one_length ? 1024 : std::floor(LogUniform(random, 7, 13));
      TimingSample sample = {
          .tokens = length * count, .tokens_squared = length * length * count, .sequences = count};
      sample = TimedWithSequences(random, sample, truth, {});
      AddSample(sample, said);
      sample.sequences = 0;
      AddSample(sample, unsaid);
    }
    const FittedCosts with = *Costs(said);
    const FittedCosts without = *Costs(unsaid);
    EXPECT_EQ(with.per_sequence, 0);
    EXPECT_LT(RelativeError(with.per_token, without.per_token), 1e-6);
    EXPECT_LT(RelativeError(with.per_microbatch, without.per_microbatch), 1e-6);
    EXPECT_NEAR(with.per_token_squared, without.per_token_squared, 1e-6 * truth.per_token_squared);
  }
}

TEST(CostFitTest, OneSampleThatDoesNotSayItsSequencesEndsTheirCostUntilManyDo) {
  const TrueCosts truth = ModelsWithSequences()[0];
  for (const int before : {20, 40, 100, 800}) {
    RandomStream random(7);
    CostFit fit;
    const auto add = [&](bool says) {
      TimingSample sample = TimedWithSequences(random, VariedMicrobatch(random), truth, {});
      if (!says) sample.sequences = 0;
      AddSample(sample, fit);
    };
    for (int i = 0; i < before; ++i) add(true);
    add(false);
    EXPECT_EQ(fit.model.coefficients[3], 0) << before;
    for (uint64_t i = 0; i < 32; ++i) add(false);
    EXPECT_EQ(Costs(fit)->per_sequence, 0) << before;
    EXPECT_LT(RelativeError(Costs(fit)->per_token, truth.per_token), 0.5) << before;
    for (uint64_t i = 0; i < kSaidSamples + 200; ++i) add(true);
    EXPECT_LT(RelativeError(Costs(fit)->per_sequence, truth.per_sequence), 0.3) << before;
  }
}

TEST(CostFitTest, AFewMeasurementsMadeForItGiveTheCostsAtOnce) {
  const TrueCosts truth = ModelsWithSequences()[0];
  std::vector<TimingSample> samples;
  for (const double length : {64, 512, 4096, 16384}) {
    for (const double tokens : {1024, 4096, 16384}) {
      if (length > tokens) continue;
      TimingSample sample = {
          .tokens = tokens, .tokens_squared = tokens * length, .sequences = tokens / length};
      sample.milliseconds = truth.Of(sample);
      samples.push_back(sample);
    }
  }
  const FittedCosts costs = CostsOf(samples);
  EXPECT_LT(RelativeError(costs.per_token, truth.per_token), 1e-6);
  EXPECT_LT(RelativeError(costs.per_token_squared, truth.per_token_squared), 1e-6);
  EXPECT_LT(RelativeError(costs.per_microbatch, truth.per_microbatch), 1e-6);
  EXPECT_LT(RelativeError(costs.per_sequence, truth.per_sequence), 1e-6);
  EXPECT_LT(costs.fit_error, 1e-6);
  // A single sample is proportional to its tokens.
  EXPECT_NEAR(CostsOf(std::span(samples).first(1)).per_token,
              samples[0].milliseconds / samples[0].tokens, 1e-9);
}

TEST(CostFitTest, TimesWithoutNoiseAreFittedExactly) {
  RandomStream random(1);
  CostFit fit;
  const TrueCosts truth = Models()[1];
  for (int i = 0; i < 200; ++i) {
    AddSample(Timed(random, VariedMicrobatch(random), truth, {.noise = 0, .stragglers = 0}), fit);
  }
  EXPECT_LT(WorstPrediction(*Costs(fit), truth), 1e-6);
}

const TrueCosts kExchanged = {.per_token = 0.01,
                              .per_token_squared = 1e-6,
                              .per_microbatch = 30,
                              .exchange = {{2, 0.002}, {4, 0.002}, {8, 0.003}, {16, 0.009}}};

TimingSample OnGroup(RandomStream& random, double ranks, const TrueCosts& costs,
                     const Scatter& scatter) {
  TimingSample sample = VariedMicrobatch(random);
  sample.context_parallel = ranks;
  return Timed(random, sample, costs, scatter);
}

// The costs fitted to `samples` exact timings of groups that have these sizes in turn.
FittedCosts ExactCosts(const std::vector<double>& sizes) {
  RandomStream random(7);
  std::vector<TimingSample> samples;
  for (size_t i = 0; i < 60; ++i) {
    samples.push_back(
        OnGroup(random, sizes[i % sizes.size()], kExchanged, {.noise = 0, .stragglers = 0}));
  }
  return CostsOf(samples);
}

TEST(CostFitTest, GroupsOfSeveralSizesTellWhatTheyExchange) {
  // Without groups of one rank, the two smallest sizes are assumed to have the same exchange.
  for (const std::vector<double>& sizes :
       {std::vector<double>{1, 2, 8, 16}, {2, 4, 16}, {1, 16}, {2, 4}}) {
    const FittedCosts costs = ExactCosts(sizes);
    EXPECT_NEAR(costs.per_token, 0.01, 1e-6);
    EXPECT_NEAR(costs.per_token_squared, 1e-6, 1e-9);
    EXPECT_NEAR(costs.per_microbatch, 30, 0.1);
    EXPECT_EQ(costs.context_sizes, sizes);
    ASSERT_EQ(costs.exchange.size(), sizes.size() - (sizes[0] == 1 ? 1 : 0));
    for (const SizeExchange& size : costs.exchange) {
      EXPECT_NEAR(size.per_token, kExchanged.exchange.at(size.ranks), 1e-6) << size.ranks;
    }
  }
}

TEST(CostFitTest, TheExchangeOfOneSizeIsPartOfWhatATokenCosts) {
  const FittedCosts costs = ExactCosts({8});
  EXPECT_EQ(costs.context_sizes, std::vector<double>{8});
  EXPECT_TRUE(costs.exchange.empty());
  // Each of eight ranks receives seven tokens for each one that it computes.
  EXPECT_NEAR(costs.per_token, 0.01 + 7 * 0.003, 1e-6);
}

TEST(CostFitTest, ExchangeIsLearntFromNoisyTimesAndOfASizeThatCameLate) {
  for (const uint64_t seed : Seeds(20)) {
    RandomStream random(seed);
    CostFit fit;
    for (int i = 0; i < 600; ++i) {
      AddSample(OnGroup(random, random.OneOf<double>({1, 2}), kExchanged, {}), fit);
    }
    for (int i = 0; i < 200; ++i) {
      AddSample(OnGroup(random, random.OneOf<double>({2, 16}), kExchanged, {}), fit);
    }
    const FittedCosts costs = Costs(fit).value();
    EXPECT_EQ(costs.context_sizes, (std::vector<double>{1, 2, 16})) << seed;
    ASSERT_EQ(costs.exchange.size(), 2u) << seed;
    EXPECT_NEAR(costs.exchange[0].per_token, 0.002, 0.001) << seed;
    EXPECT_NEAR(costs.exchange[1].per_token, 0.009, 0.0005) << seed;
    EXPECT_NEAR(costs.per_token, 0.01, 0.0005) << seed;
  }
}

TEST(CostFitTest, ASizeIsNamedOnceItsExchangeIsFitted) {
  RandomStream random(5);
  CostFit fit;
  for (int i = 0; i < 64; ++i) {
    AddSample(OnGroup(random, i % 2 == 0 ? 1 : 4, kExchanged, {}), fit);
  }
  for (size_t i = 0; i < kRefreshSamples; ++i) {
    EXPECT_EQ(Costs(fit)->context_sizes, (std::vector<double>{1, 4}));
    AddSample(OnGroup(random, 16, kExchanged, {}), fit);
  }
  EXPECT_EQ(Costs(fit)->context_sizes, (std::vector<double>{1, 4, 16}));
}

TEST(CostFitTest, OnceAllRecentSamplesHaveOneSizeItsExchangeIsPartOfItsTokens) {
  RandomStream random(5);
  CostFit fit;
  for (int i = 0; i < 320; ++i) {
    AddSample(OnGroup(random, random.OneOf<double>({1, 4}), kExchanged, {}), fit);
  }
  EXPECT_EQ(Costs(fit)->exchange.size(), 1u);
  for (int i = 0; i < 320; ++i) AddSample(OnGroup(random, 4, kExchanged, {}), fit);
  const FittedCosts costs = Costs(fit).value();
  EXPECT_EQ(costs.context_sizes, std::vector<double>{4});
  EXPECT_TRUE(costs.exchange.empty());
  EXPECT_NEAR(costs.per_token, 0.01 + 3 * 0.002, 0.0008);
}

TEST(CostFitTest, WithoutAnExchangeHardlyAnyIsSeen) {
  int seen = 0;
  for (const uint64_t seed : Seeds(100)) {
    RandomStream random(seed);
    CostFit fit;
    TrueCosts costs = kExchanged;
    costs.exchange.clear();
    for (int i = 0; i < 320; ++i) {
      AddSample(OnGroup(random, random.OneOf<double>({1, 4}), costs, {}), fit);
    }
    if (!Costs(fit)->exchange.empty()) ++seen;
  }
  EXPECT_LE(seen, 5);
}

// Arbitrary times can't be fitted, but must not break anything.
TEST(CostFitTest, WhateverIsReportedCoefficientsAreFiniteAndNotNegative) {
  for (const uint64_t seed : testing::Seeds(100)) {
    RandomStream random(seed);
    CostFit fit;
    const bool few_kinds = random.Chance(30);
    const auto says_percent = random.OneOf<uint32_t>({0, 99, 100});
    std::vector<TimingSample> kinds;
    for (int i = 0; i < 3; ++i) kinds.push_back(Microbatch(random, LogUniform(random, 0, 32), 1e9));
    for (int i = 0; i < 300; ++i) {
      TimingSample sample;
      if (few_kinds) {
        sample = random.OneOf(kinds);
      } else {
        sample.tokens = std::floor(LogUniform(random, 0, 32));
        const double share = random.Chance(20) ? 1 : random.Uniform();
        sample.tokens_squared = std::exp2((1 + share) * std::log2(sample.tokens));
      }
      sample.milliseconds = LogUniform(random, -9.9, 26);
      sample.sequences =
          random.Chance(says_percent) ? std::ceil(sample.tokens * random.Uniform()) : 0;
      AddSample(sample, fit);
      const std::optional<FittedCosts> costs = Costs(fit);
      ASSERT_EQ(costs.has_value(), fit.samples >= kMinSamples);
      if (!costs) continue;
      for (const double value : {costs->per_token, costs->per_token_squared, costs->per_microbatch,
                                 costs->per_sequence, costs->fit_error, costs->outlier_share}) {
        ASSERT_TRUE(std::isfinite(value) && value >= 0) << seed << " " << i;
      }
      ASSERT_GT(
          costs->per_token + costs->per_token_squared + costs->per_microbatch + costs->per_sequence,
          0)
          << seed;
      ASSERT_LT(costs->outlier_share, 1) << seed;
    }
  }
}

TEST(CostFitTest, TheFitIsAFunctionOfTheSamplesInTheirOrder) {
  RandomStream random(5);
  std::vector<TimingSample> samples;
  for (int i = 0; i < 777; ++i) {
    samples.push_back(Timed(random, VariedMicrobatch(random), Models()[0], {}));
  }
  CostFit one;
  CostFit other;
  for (const TimingSample& sample : samples) AddSample(sample, one);
  for (const TimingSample& sample : samples) AddSample(sample, other);
  EXPECT_EQ(one, other);
}

}  // namespace
}  // namespace batchplan
