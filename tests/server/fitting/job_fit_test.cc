#include "server/fitting/job_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/server/fitting/random_fit.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::RandomFit;
using testing::RandomReport;
using testing::RandomStream;

TEST(JobFitTest, AReportSentAgainIsNotCountedAgain) {
  RandomStream random(1);
  JobFit fit;
  std::vector<StepReport> reports;
  for (uint64_t step = 0; step < kSeenReports; ++step) {
    reports.push_back(RandomReport(random, step));
    EXPECT_TRUE(AddReport(reports.back(), fit));
  }
  const JobFit before = fit;
  for (const StepReport& report : reports) EXPECT_FALSE(AddReport(report, fit));
  EXPECT_EQ(fit, before);
}

TEST(JobFitTest, OtherTimesOrAnotherStepAreAnotherReport) {
  RandomStream random(1);
  JobFit fit;
  StepReport report = RandomReport(random, 7);
  EXPECT_TRUE(AddReport(report, fit));
  report.microbatches[0].milliseconds =
      std::nextafter(report.microbatches[0].milliseconds, std::numeric_limits<double>::max());
  EXPECT_TRUE(AddReport(report, fit));
  report.step = 8;
  EXPECT_TRUE(AddReport(report, fit));
  report.microbatches[0].sequences = 1;
  EXPECT_TRUE(AddReport(report, fit));
  EXPECT_EQ(fit.costs.samples, 4 * report.microbatches.size());
}

TEST(JobFitTest, EmptyMicrobatchesAreNotFitted) {
  RandomStream random(1);
  JobFit fit;
  StepReport report = RandomReport(random, 7);
  const size_t samples = report.microbatches.size();
  report.microbatches.push_back({.milliseconds = 3, .rank = 0, .slot = 9});
  EXPECT_TRUE(report.Validate().ok());
  EXPECT_TRUE(AddReport(report, fit));
  EXPECT_EQ(fit.costs.samples, samples);
}

TEST(JobFitTest, AnEmptyReportChangesNothing) {
  RandomStream random(1);
  JobFit fit = RandomFit(random);
  const JobFit before = fit;
  EXPECT_FALSE(AddReport({.step = 1, .microbatches = {}}, fit));
  EXPECT_EQ(fit, before);
}

TEST(JobFitTest, HowTheSamplesAreDividedIntoReportsDoesNotMatter) {
  RandomStream random(2);
  JobFit one_by_one;
  JobFit together;
  StepReport all;
  for (uint64_t step = 0; step < 100; ++step) {
    const StepReport report = RandomReport(random, step);
    AddReport(report, one_by_one);
    all.microbatches.insert(all.microbatches.end(), report.microbatches.begin(),
                            report.microbatches.end());
  }
  AddReport(all, together);
  EXPECT_EQ(one_by_one.costs, together.costs);
  EXPECT_EQ(one_by_one.memory, together.memory);
}

struct WrongReport {
  std::string name;
  std::function<void(StepReport&)> make;
  ::testing::Matcher<std::string> message;
};

class WrongReportTest : public ::testing::TestWithParam<WrongReport> {};

TEST_P(WrongReportTest, IsRefusedByFieldValueAndLimit) {
  StepReport report = {.step = 1,
                       .microbatches = {{.tokens = 100, .tokens_squared = 5000, .milliseconds = 3},
                                        {.tokens = 8, .tokens_squared = 64, .milliseconds = 3}}};
  ASSERT_TRUE(report.Validate().ok());
  GetParam().make(report);
  const absl::Status status = report.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    JobFit, WrongReportTest,
    ::testing::Values(
        WrongReport{"NoTokens", [](auto& report) { report.microbatches[1].tokens = 0; },
                    AllOf(HasSubstr("microbatches[1].tokens is 0"), HasSubstr("4294967295"))},
        WrongReport{"TooManyTokens",
                    [](auto& report) { report.microbatches[0].tokens = uint64_t{1} << 32; },
                    HasSubstr("microbatches[0].tokens is 4294967296")},
        WrongReport{"SquaresBelowTheTokens",
                    [](auto& report) { report.microbatches[0].tokens_squared = 99; },
                    AllOf(HasSubstr("microbatches[0].tokens_squared is 99"), HasSubstr("10000"))},
        WrongReport{"SquaresAboveTheSquare",
                    [](auto& report) { report.microbatches[1].tokens_squared = 65; },
                    AllOf(HasSubstr("microbatches[1].tokens_squared is 65"), HasSubstr("64"))},
        WrongReport{"NoTime", [](auto& report) { report.microbatches[0].milliseconds = 0; },
                    AllOf(HasSubstr("microbatches[0].milliseconds is 0"), HasSubstr("0.001"))},
        WrongReport{"ANegativeTime", [](auto& report) { report.microbatches[0].milliseconds = -1; },
                    HasSubstr("microbatches[0].milliseconds is -1")},
        WrongReport{"NotANumber",
                    [](auto& report) { report.microbatches[0].milliseconds = std::nan(""); },
                    HasSubstr("microbatches[0].milliseconds is nan")},
        WrongReport{
            "MoreThanADay", [](auto& report) { report.microbatches[0].milliseconds = 1e9; },
            AllOf(HasSubstr("microbatches[0].milliseconds is 1e+09"), HasSubstr("8.64e+07"))},
        WrongReport{"MoreMemoryThanThereIs",
                    [](auto& report) { report.microbatches[0].peak_bytes = uint64_t{1} << 60; },
                    HasSubstr("microbatches[0].peak_bytes is 1152921504606846976")},
        WrongReport{"TokensWithoutTheirSquares",
                    [](auto& report) {
                      report.microbatches[1] = {.tokens_squared = 1, .milliseconds = 3};
                      report.microbatches[1].rank = report.microbatches[1].slot = 0;
                    },
                    HasSubstr("microbatches[1].tokens_squared is 1")},
        WrongReport{"ARankBeyondTheLast",
                    [](auto& report) {
                      report.data_parallel = 8;
                      report.microbatches[1].rank = 8;
                    },
                    HasSubstr("microbatches[1].rank is 8; it must be below data_parallel=8")},
        WrongReport{"ARankBeyondAll", [](auto& report) { report.microbatches[0].rank = 65536; },
                    HasSubstr("microbatches[0].rank is 65536; the limit is 65535")},
        WrongReport{"TooManyRanks", [](auto& report) { report.data_parallel = 65537; },
                    HasSubstr("data_parallel is 65537; the limit is 65536")},
        WrongReport{"APredictionThatIsNone",
                    [](auto& report) { report.predicted_milliseconds = std::nan(""); },
                    HasSubstr("predicted_step_time is nan; it must be between 0 and 8.64e+07")},
        WrongReport{"APredictionBackInTime",
                    [](auto& report) { report.predicted_milliseconds = -1; },
                    HasSubstr("predicted_step_time is -1")},
        WrongReport{"APredictionOfMoreThanADay",
                    [](auto& report) {
                      report.predicted_milliseconds = std::numeric_limits<double>::infinity();
                    },
                    HasSubstr("predicted_step_time is inf")},
        WrongReport{"MoreSequencesThanTokens",
                    [](auto& report) { report.microbatches[1].sequences = 9; },
                    AllOf(HasSubstr("microbatches[1].sequences is 9"), HasSubstr("its tokens, 8"))},
        WrongReport{"TooManyMicrobatches",
                    [](auto& report) {
                      report.microbatches.resize(kMaxReportedMicrobatches + 1,
                                                 report.microbatches[0]);
                    },
                    AllOf(HasSubstr("microbatches has 65537"), HasSubstr("65536"))}),
    [](const auto& info) { return info.param.name; });

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

TEST(FitStateTest, AFitThatWasStoredGoesOnAsIfItHadNotBeen) {
  RandomStream random(3);
  JobFit kept;
  JobFit stored;
  for (uint64_t step = 0; step < 200; ++step) {
    // From the 50th step on all workers say their sequences, but for one of the 150th.
    const StepReport report = RandomReport(random, step, step >= 50 && step != 150);
    AddReport(report, kept);
    stored = *ParseFit(SerializeFit(stored));
    AddReport(report, stored);
  }
  EXPECT_EQ(stored, kept);
}

TEST(FitStateTest, TheLargestStateKeepsItsBound) {
  JobFit fit;
  for (uint64_t step = 0; step < 3 * kPeakGeneration; ++step) {
    const uint64_t tokens = (step * 7919 + 1) % 4000000 + 1;
    AddReport({.step = step,
               .microbatches = {{.tokens = tokens,
                                 .tokens_squared = tokens,
                                 .milliseconds = 1,
                                 .peak_bytes = tokens,
                                 .sequences = 1}}},
              fit);
  }
  EXPECT_EQ(fit.costs.recent.size(), kRecentSamples);
  EXPECT_EQ(fit.memory.current.size(), kPeakClasses);
  EXPECT_EQ(fit.memory.previous.size(), kPeakClasses);
  EXPECT_EQ(fit.seen.hashes.size(), kSeenReports);
  EXPECT_LE(SerializeFit(fit).size(), kMaxFitStateBytes);
}

// So that replicas of an earlier version go on reading what no worker's sequences are in.
TEST(FitStateTest, WithoutSequencesAFitIsWrittenAsVersionOne) {
  RandomStream random(4);
  JobFit fit;
  for (uint64_t step = 0; step < 30; ++step) AddReport(RandomReport(random, step), fit);
  EXPECT_EQ(SerializeFit(fit)[4], 1);
  JobFit read = *ParseFit(SerializeFit(fit));
  EXPECT_EQ(read, fit);
  AddReport(RandomReport(random, 30, /*says_sequences=*/true), read);
  EXPECT_EQ(SerializeFit(read)[4], 2);
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

// Bytes that are hashed as they should be, but that no fit has. What is accepted can be used.
TEST(FitStateTest, BytesThatNoFitHasDoNoHarm) {
  uint64_t refused = 0;
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    JobFit fit = RandomFit(random);
    const std::vector<double> values = {
        std::nan(""), -1, 0, 1, 1e300, std::numeric_limits<double>::infinity()};
    switch (random.Between(0, 9)) {
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

TEST(FitStateTest, AnotherVersionIsRefusedAsSuch) {
  std::string state = SerializeFit({});
  state[4] = 3;
  const absl::Status status = ParseFit(state).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 3"));
}

}  // namespace
}  // namespace batchplan
