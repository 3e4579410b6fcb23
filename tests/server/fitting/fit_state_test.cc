// The bytes in which a job's fit is kept.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/base/fnv_hash.h"
#include "server/fitting/job_fit.h"
#include "tests/server/fitting/random_fit.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using testing::RandomFit;
using testing::RandomReport;
using testing::RandomReportOfGroups;
using testing::RandomStream;
using testing::TrueCosts;
using testing::WithLoads;

TEST(FitStateTest, AFitComesBackAsItWas) {
  for (const uint64_t seed : testing::Seeds(100)) {
    RandomStream random(seed);
    const JobFit fit = RandomFit(random);
    const std::string state = SerializeFit(fit);
    EXPECT_LE(state.size(), kMaxFitStateBytes);
    const absl::StatusOr<JobFit> parsed = ParseFit(state);
    ASSERT_TRUE(parsed.ok()) << seed << " " << parsed.status();
    EXPECT_EQ(*parsed, fit) << seed;
  }
}

// Times that no model explains, at the limits of reports, from workers that come and go.
TEST(FitStateTest, WhateverIsReportedComesBack) {
  for (const uint64_t seed : testing::Seeds(100)) {
    RandomStream random(seed);
    const uint32_t says_percent = random.OneOf<uint32_t>({0, 50, 99, 100});
    const double most_octaves = random.OneOf<double>({0, 8, 31.9});
    const std::vector<uint32_t> groups =
        random.OneOf<std::vector<uint32_t>>({{1}, {1, kMaxReportedContextParallel}});
    std::vector<std::string> names(random.OneOf<size_t>({0, 0, 1, kMaxReportedLoads}));
    for (size_t i = 0; i < names.size(); ++i) names[i] = std::string(kMaxReportedLoadName, 'a' + i);
    JobFit fit;
    for (uint64_t step = 0; step < 200; ++step) {
      const auto tokens = static_cast<uint64_t>(testing::LogUniform(random, 0, most_octaves));
      StepReport report = {
          .step = step,
          .microbatches = {{.tokens = tokens,
                            .tokens_squared = random.OneOf<uint64_t>({tokens, tokens * tokens}),
                            .milliseconds = testing::LogUniform(random, -9.9, 26.3),
                            .peak_bytes = random.OneOf<uint64_t>({1, kMaxReportedBytes}),
                            .sequences = random.OneOf<uint64_t>({1, tokens}),
                            .context_parallel = random.OneOf(groups)}}};
      report.microbatches[0].model_share = random.OneOf<double>(
          {1, 1.01 * report.microbatches[0].milliseconds / kMaxReportedMilliseconds});
      if (!random.Chance(says_percent)) report.microbatches[0].sequences = 0;
      report.loads = names;
      report.microbatches[0].loads.resize(names.size());
      for (double& load : report.microbatches[0].loads) {
        load = random.OneOf<double>({0, kMinReportedLoad, kMaxReportedLoad});
      }
      ASSERT_TRUE(report.Validate().ok()) << report.Validate();
      AddReport(report, fit);
      const absl::StatusOr<JobFit> parsed = ParseFit(SerializeFit(fit));
      ASSERT_TRUE(parsed.ok()) << seed << " " << step << " " << parsed.status();
      ASSERT_EQ(*parsed, fit) << seed << " " << step;
    }
  }
}

TEST(FitStateTest, AFitThatWasStoredGoesOnAsIfItHadNotBeen) {
  RandomStream random(3);
  JobFit kept;
  JobFit stored;
  for (uint64_t step = 0; step < 200; ++step) {
    // From step 50 on all workers report their sequences, except one of step 150. Loads come with
    // step 100, others with step 170.
    StepReport report = RandomReport(random, step, step >= 50 && step != 150);
    if (step >= 170) {
      report = WithLoads(random, report, {"frames"});
    } else if (step >= 100) {
      report = WithLoads(random, report, {"patches", "frames"});
    }
    AddReport(report, kept);
    stored = *ParseFit(SerializeFit(stored));
    AddReport(report, stored);
  }
  EXPECT_EQ(stored, kept);
}

TEST(FitStateTest, TheLargestStateKeepsItsBound) {
  JobFit fit;
  std::vector<std::string> names(kMaxReportedLoads);
  for (size_t i = 0; i < names.size(); ++i) names[i] = std::string(kMaxReportedLoadName, 'a' + i);
  for (uint64_t step = 0; step < 3 * kPeakGeneration; ++step) {
    const uint64_t tokens = (step * 7919 + 1) % 4000000 + 1;
    AddReport({.step = step,
               .microbatches = {{.tokens = tokens,
                                 .tokens_squared = tokens,
                                 .milliseconds = 1,
                                 .peak_bytes = tokens,
                                 .sequences = 1,
                                 .context_parallel = 1U << step % 8,
                                 .loads = std::vector<double>(names.size(), 1)}},
               .loads = names},
              fit);
  }
  EXPECT_TRUE(fit.costs.loads_in_sums);
  EXPECT_EQ(fit.costs.sizes.size(), kMaxContextSizes);
  EXPECT_EQ(fit.costs.recent.size(), kRecentSamples);
  EXPECT_EQ(fit.memory.current.size(), kPeakClasses);
  EXPECT_EQ(fit.memory.previous.size(), kPeakClasses);
  EXPECT_EQ(fit.seen.hashes.size(), kSeenReports);
  EXPECT_LE(SerializeFit(fit).size(), kMaxFitStateBytes);
}

// So that replicas of an earlier version can read fits without sequences.
TEST(FitStateTest, WithoutSequencesAFitIsWrittenAsVersionOne) {
  RandomStream random(4);
  JobFit fit;
  for (uint64_t step = 0; step < 30; ++step) AddReport(RandomReport(random, step), fit);
  EXPECT_EQ(SerializeFit(fit)[4], 1);
  JobFit read = *ParseFit(SerializeFit(fit));
  EXPECT_EQ(read, fit);
  AddReport(RandomReport(random, 30, /*says_sequences=*/true), read);
  EXPECT_EQ(SerializeFit(read)[4], 2);
  // It is version one again when no recent sample has sequences.
  const uint64_t said = read.costs.samples;
  for (uint64_t step = 31; read.costs.samples < said + kRecentSamples; ++step) {
    AddReport(RandomReport(random, step), read);
  }
  EXPECT_EQ(SerializeFit(read)[4], 1);
}

// So that older replicas can read fits without groups, and refuse those that they would misread.
TEST(FitStateTest, WithoutGroupsAFitIsWrittenAsBefore) {
  RandomStream random(6);
  JobFit fit;
  for (uint64_t step = 0; step < 30; ++step) {
    AddReport(RandomReport(random, step, /*says_sequences=*/true), fit);
  }
  EXPECT_EQ(SerializeFit(fit)[4], 2);
  StepReport report = RandomReport(random, 30);
  for (ReportedMicrobatch& one : report.microbatches) one.model_share = 0.5;
  AddReport(report, fit);
  EXPECT_EQ(SerializeFit(fit)[4], 2);
  report.microbatches[0].context_parallel = 2;
  AddReport(report, fit);
  EXPECT_EQ(SerializeFit(fit)[4], 4);
  for (ReportedMicrobatch& one : report.microbatches) one.context_parallel = 2;
  for (report.step = 31; fit.costs.samples < 20 * kRecentSamples; ++report.step) {
    AddReport(report, fit);
  }
  // All samples have one size again, as a replica without sums by size expects.
  EXPECT_EQ(SerializeFit(fit)[4], 3);
  EXPECT_EQ(*ParseFit(SerializeFit(fit)), fit);
  const uint64_t grouped = fit.costs.samples;
  for (uint64_t step = report.step; fit.costs.samples < grouped + kRecentSamples; ++step) {
    AddReport(RandomReport(random, step), fit);
  }
  EXPECT_EQ(SerializeFit(fit)[4], 1);
}

TEST(FitStateTest, WithoutLoadsAFitIsWrittenAsBefore) {
  RandomStream random(7);
  JobFit fit;
  uint64_t step = 0;
  for (; step < 30; ++step) AddReport(RandomReport(random, step), fit);
  EXPECT_EQ(SerializeFit(fit)[4], 1);
  for (; step < 100; ++step) {
    AddReport(WithLoads(random, RandomReport(random, step), {"patches", "frames"}), fit);
  }
  EXPECT_EQ(SerializeFit(fit)[4], 5);
  EXPECT_TRUE(fit.costs.loads_in_sums);
  EXPECT_EQ(*ParseFit(SerializeFit(fit)), fit);
  AddReport(RandomReport(random, step), fit);
  EXPECT_EQ(SerializeFit(fit)[4], 1);
  EXPECT_EQ(*ParseFit(SerializeFit(fit)), fit);
}

// A job with groups of 8 ranks whose workers did not report that: its costs of a token were an
// eighth.
TEST(FitStateTest, AFitOfWorkersThatSaidNoGroupsIsLeftOnceTheyDo) {
  const TrueCosts& truth = testing::kReportedCosts;
  for (const uint64_t seed : testing::Seeds(20)) {
    RandomStream random(seed);
    const auto report_of_eight = [&random](uint64_t step, bool says) {
      StepReport report = RandomReportOfGroups(random, step, /*says_sequences=*/true);
      for (ReportedMicrobatch& one : report.microbatches) {
        const double of_tokens = truth.per_token * static_cast<double>(one.tokens) +
                                 truth.per_token_squared * static_cast<double>(one.tokens_squared);
        one.milliseconds = (of_tokens / 8 + truth.per_microbatch) * (1 + 0.04 * random.Normal());
        one.context_parallel = says ? 8 : 1;
        one.model_share = 1;
      }
      return report;
    };
    JobFit fit;
    uint64_t step = 0;
    for (; step < 200; ++step) AddReport(report_of_eight(step, false), fit);
    const std::string stored = SerializeFit(fit);
    ASSERT_EQ(stored[4], 2);
    EXPECT_NEAR(Costs(fit.costs)->per_token, truth.per_token / 8, 0.05 * truth.per_token / 8);

    fit = *ParseFit(stored);
    const uint64_t samples = fit.costs.samples;
    while (fit.costs.samples < samples + kRecentSamples) {
      AddReport(report_of_eight(step++, true), fit);
    }
    EXPECT_NEAR(Costs(fit.costs)->per_token, truth.per_token, 0.3 * truth.per_token) << seed;
    while (fit.costs.samples < samples + 500) AddReport(report_of_eight(step++, true), fit);
    EXPECT_NEAR(Costs(fit.costs)->per_token, truth.per_token, 0.05 * truth.per_token) << seed;
    EXPECT_NEAR(Costs(fit.costs)->per_microbatch, truth.per_microbatch, 0.05 * truth.per_microbatch)
        << seed;
  }
}

TEST(FitStateTest, NoBytesAreAnEmptyFit) { EXPECT_EQ(*ParseFit(""), JobFit()); }

TEST(FitStateTest, DamagedBytesAreRefused) {
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    std::string state = SerializeFit(RandomFit(random));
    switch (random.Between(0, 3)) {
      case 0:
        state.resize(random.Between(1, state.size() - 1));
        break;
      case 1:
        state += static_cast<char>(random.Between(0, 255));
        break;
      case 2:
        state[random.Between(0, state.size() - 1)] ^= static_cast<char>(random.Between(1, 255));
        break;
      default:
        for (char& byte : state) byte = static_cast<char>(random.Between(0, 255));
    }
    EXPECT_FALSE(ParseFit(state).ok()) << seed;
  }
}

// Bytes with a correct hash that no fit has. What is accepted must be usable.
TEST(FitStateTest, BytesThatNoFitHasDoNoHarm) {
  uint64_t refused = 0;
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    JobFit fit = RandomFit(random);
    const std::vector<double> values = {
        std::nan(""), -1, 0, 1, 1e300, std::numeric_limits<double>::infinity()};
    switch (random.Between(0, 12)) {
      case 0:
        fit.costs.sums.weight = random.OneOf(values);
        break;
      case 1:
        fit.costs.model.coefficients[random.Between(0, 3)] = random.OneOf(values);
        break;
      case 2:
        fit.costs.model.typical_milliseconds = random.OneOf(values);
        break;
      case 3:
        fit.costs.recent.clear();
        break;
      case 4:
        if (!fit.costs.recent.empty()) fit.costs.recent[0].milliseconds = random.OneOf(values);
        break;
      case 5:
        fit.memory.current.push_back({.min_tokens = 5, .max_tokens = 4, .min_bytes = 0});
        break;
      case 6:
        fit.costs.sums.matrix[1][1] = random.OneOf(values);
        break;
      case 7:
        fit.costs.sums.matrix[3][3] = random.OneOf(values);
        break;
      case 8:
        if (!fit.costs.recent.empty()) fit.costs.recent[0].sequences = random.OneOf(values);
        break;
      case 9:
        fit.costs.sums.matrix[kFirstLoad][kFirstLoad] = random.OneOf(values);
        break;
      case 10:
        fit.costs.with_loads = random.Between(0, 100);
        break;
      case 11:
        if (!fit.costs.recent.empty()) fit.costs.recent.back().loads = {random.OneOf(values)};
        break;
      default:
        fit.costs.model.scale = random.OneOf(values);
    }
    absl::StatusOr<JobFit> parsed = ParseFit(SerializeFit(fit));
    refused += !parsed.ok();
    if (!parsed.ok()) {
      EXPECT_EQ(parsed.status().code(), absl::StatusCode::kDataLoss);
      continue;
    }
    for (uint64_t step = 0; step < 20; ++step) {
      AddReport(RandomReport(random, step, random.Chance(50)), *parsed);
    }
    Costs(parsed->costs);
    SuggestTokens(parsed->memory, uint64_t{1} << 36);
  }
  EXPECT_GT(refused, testing::Cases(200) / 5);
}

// Tampers with a fit whose reports all have sequences and loads.
struct ForgedFit {
  std::string name;
  std::function<void(JobFit&)> make;
};

class ForgedFitTest : public ::testing::TestWithParam<ForgedFit> {};

TEST_P(ForgedFitTest, IsRefused) {
  RandomStream random(5);
  JobFit fit;
  for (uint64_t step = 0; step < 60; ++step) {
    AddReport(WithLoads(random, RandomReport(random, step, true), {"patches", "frames"}), fit);
  }
  ASSERT_EQ(fit.costs.recent.size(), kRecentSamples);
  ASSERT_GT(fit.costs.sums.weight, 0);
  ASSERT_TRUE(ParseFit(SerializeFit(fit)).ok());
  GetParam().make(fit);
  EXPECT_EQ(ParseFit(SerializeFit(fit)).status().code(), absl::StatusCode::kDataLoss);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    FitState, ForgedFitTest,
    ::testing::Values(
        ForgedFit{"ATimeOfMoreThanADay", [](auto& fit) { fit.costs.recent[3].milliseconds = 1e9; }},
        ForgedFit{"ATimeThatIsNoNumber",
                  [](auto& fit) { fit.costs.recent[3].milliseconds = std::nan(""); }},
        ForgedFit{"MoreTokensThanThereMayBe", [](auto& fit) { fit.costs.recent[3].tokens = 1e10; }},
        ForgedFit{"SquaresAboveTheSquare",
                  [](auto& fit) { fit.costs.recent[3].tokens_squared = 1e300; }},
        ForgedFit{"MoreSequencesThanTokens",
                  [](auto& fit) { fit.costs.recent[3].sequences = 1e10; }},
        ForgedFit{"AGroupOfNoRanks", [](auto& fit) { fit.costs.recent[3].context_parallel = 0; }},
        ForgedFit{"AGroupBeyondAll",
                  [](auto& fit) { fit.costs.recent[3].context_parallel = 65537; }},
        ForgedFit{"AGroupThatIsNoNumber",
                  [](auto& fit) { fit.costs.recent[3].context_parallel = std::nan(""); }},
        ForgedFit{"ASampleWithoutSequencesThatAreFitted",
                  [](auto& fit) {
                    fit.costs.recent[0].sequences = 0;
                    fit.costs.said = kRecentSamples - 1;
                    fit.costs.sums.matrix[3][3] = 1;
                  }},
        ForgedFit{"ALoadBeyondAll", [](auto& fit) { fit.costs.recent[3].loads[1] = 1e31; }},
        ForgedFit{"ALoadBelowZero", [](auto& fit) { fit.costs.recent[3].loads[1] = -1; }},
        ForgedFit{"ALoadWithoutAName", [](auto& fit) { fit.costs.recent[3].loads.push_back(1); }},
        ForgedFit{"ASampleWithoutLoadsThatAreFitted",
                  [](auto& fit) {
                    fit.costs.recent[0].loads.clear();
                    fit.costs.with_loads = kRecentSamples - 1;
                  }},
        ForgedFit{"MoreWithLoadsThanThereWere",
                  [](auto& fit) { fit.costs.with_loads = fit.costs.samples + 1; }},
        ForgedFit{"SumsOfLoadsThatAreInNone", [](auto& fit) { fit.costs.loads_in_sums = false; }},
        ForgedFit{"TwoLoadsOfOneName", [](auto& fit) { fit.costs.load_names[1] = "patches"; }},
        ForgedFit{"ALoadOfNoName", [](auto& fit) { fit.costs.load_names[0].clear(); }},
        ForgedFit{"ALoadOfALongName",
                  [](auto& fit) {
                    fit.costs.load_names[0] = std::string(kMaxReportedLoadName + 1, 'a');
                  }},
        ForgedFit{"ACoefficientBelowZero", [](auto& fit) { fit.costs.model.coefficients[1] = -1; }},
        ForgedFit{"ACoefficientWithoutEnd",
                  [](auto& fit) { fit.costs.model.coefficients[1] = kInfinity; }},
        ForgedFit{"ACoefficientWhoseShareHasNoEnd",
                  [](auto& fit) { fit.costs.model.coefficients[1] = 1e300; }},
        ForgedFit{"AScaleThatIsNoNumber", [](auto& fit) { fit.costs.model.scale = std::nan(""); }},
        ForgedFit{"AScaleOfNothing", [](auto& fit) { fit.costs.model.scale = 0; }},
        ForgedFit{"NothingIsTypical",
                  [](auto& fit) { fit.costs.model.typical_milliseconds = 1e-320; }},
        ForgedFit{"AWeightWithoutEnd", [](auto& fit) { fit.costs.sums.weight = kInfinity; }},
        ForgedFit{"ASumThatIsNoNumber",
                  [](auto& fit) { fit.costs.sums.matrix[2][0] = std::nan(""); }},
        ForgedFit{"ASumBelowZero", [](auto& fit) { fit.costs.sums.right[3] = -1; }},
        ForgedFit{"ASquareOfNextToNothing",
                  [](auto& fit) { fit.costs.sums.matrix[1][1] = 1e-300; }},
        ForgedFit{"SizesThatDoNotAscend",
                  [](auto& fit) {
                    fit.costs.sizes = {{.ranks = 2, .sums = fit.costs.sums},
                                       {.ranks = 2, .sums = fit.costs.sums}};
                  }},
        ForgedFit{"ASizeOfNoRanks",
                  [](auto& fit) { fit.costs.sizes = {{.ranks = 0, .sums = fit.costs.sums}}; }},
        ForgedFit{"ASizeWithoutRows", [](auto& fit) { fit.costs.sizes = {{.ranks = 2, .sums = {}}}; }},
        ForgedFit{"AnExchangeBelowZero",
                  [](auto& fit) {
                    fit.costs.model.exchange = {{.ranks = 2, .per_token = -1}};
                  }},
        ForgedFit{"RowsWithoutTokens", [](auto& fit) { fit.costs.sums.matrix[0][0] = 0; }},
        ForgedFit{"RowsThatTookNoTime", [](auto& fit) { fit.costs.sums.right = {}; }},
        ForgedFit{"FewerSamplesThanThereAre",
                  [](auto& fit) { fit.costs.samples = kRecentSamples - 1; }},
        ForgedFit{"SumsOfSamplesThatAreGone",
                  [](auto& fit) { fit.costs.recent.resize(kRecentSamples - 1); }},
        ForgedFit{"MoreSamplesThanThereAre",
                  [](auto& fit) {
                    fit.costs.sums = {};
                    fit.costs.recent.resize(kRecentSamples / 2 - 1);
                  }},
        ForgedFit{"MoreSaidThanThereWere",
                  [](auto& fit) { fit.costs.said = fit.costs.samples + 1; }},
        ForgedFit{"FewerSaidThanThereAre", [](auto& fit) { fit.costs.said = kRecentSamples - 1; }},
        ForgedFit{"MorePeaksThanAreKept",
                  [](auto& fit) { fit.memory.in_current = kPeakGeneration + 1; }},
        ForgedFit{"FewerPeaksThanThereAre", [](auto& fit) { fit.memory.in_current = 0; }},
        ForgedFit{"APeakBeyondMemory",
                  [](auto& fit) { fit.memory.current.back().max_bytes = kMaxReportedBytes + 1; }},
        ForgedFit{"APeakOfTooManyTokens",
                  [](auto& fit) {
                    fit.memory.current.push_back({.min_tokens = kMaxReportedTokens + 1,
                                                  .max_tokens = kMaxReportedTokens + 1,
                                                  .min_bytes = 1,
                                                  .max_bytes = 1});
                  }}),
    [](const auto& info) { return info.param.name; });

// The bytes of a state: the version, the words that SerializeFit writes, and the hash.
std::string HandWritten(char version, const std::vector<uint64_t>& words) {
  std::string state = std::string("BPFT") + version + std::string(3, '\0');
  const auto write = [&state](uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) state += static_cast<char>(word >> shift);
  };
  for (const uint64_t word : words) write(word);
  FnvHash hash;
  hash.Add(state);
  write(hash.value());
  return state;
}

// SerializeFit writes a fit without samples as version 1, which has no column for sequences.
TEST(FitStateTest, CostsOfNoSamplesAreRefused) {
  constexpr size_t kCoefficients = 1 + 16 + 4 + 2;
  constexpr size_t kSaid = kCoefficients + 4 + 3;
  // No samples, then no classes and no hashes.
  std::vector<uint64_t> words(kSaid + 1 + 4);
  words[kCoefficients + 4] = std::bit_cast<uint64_t>(1.0);
  ASSERT_EQ(*ParseFit(HandWritten(2, words)), JobFit());
  for (const size_t column : {0, 1, 2, 3}) {
    std::vector<uint64_t> forged = words;
    forged[kCoefficients + column] = std::bit_cast<uint64_t>(1.0);
    EXPECT_EQ(ParseFit(HandWritten(2, forged)).status().code(), absl::StatusCode::kDataLoss);
  }
  words[kSaid] = 1;
  EXPECT_EQ(ParseFit(HandWritten(2, words)).status().code(), absl::StatusCode::kDataLoss);
}

TEST(FitStateTest, AnotherVersionIsRefusedAsSuch) {
  std::string state = SerializeFit({});
  state[4] = 6;
  const absl::Status status = ParseFit(state).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 6"));
}

}  // namespace
}  // namespace batchplan
