#include "server/fitting/job_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
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
using testing::RandomReportOfGroups;
using testing::RandomStream;
using testing::TrueCosts;
using testing::WithLoads;

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
  report.microbatches[0].context_parallel = 2;
  EXPECT_TRUE(AddReport(report, fit));
  report.microbatches[0].model_share = 0.5;
  EXPECT_TRUE(AddReport(report, fit));
  report = WithLoads(random, report, {"patches"});
  EXPECT_TRUE(AddReport(report, fit));
  report.loads = {"frames"};
  EXPECT_TRUE(AddReport(report, fit));
  report.microbatches[0].loads[0] += 1;
  EXPECT_TRUE(AddReport(report, fit));
  EXPECT_FALSE(AddReport(report, fit));
  EXPECT_EQ(fit.costs.samples, 9 * report.microbatches.size());
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

TEST(JobFitTest, LoadsMayStandInAnyOrder) {
  RandomStream random(3);
  JobFit ordered;
  JobFit shuffled;
  for (uint64_t step = 0; step < 60; ++step) {
    const StepReport report =
        WithLoads(random, RandomReport(random, step), {"patches", "frames", "logits"});
    StepReport other = report;
    if (step > 0) {
      other.loads = {"logits", "patches", "frames"};
      for (ReportedMicrobatch& one : other.microbatches) {
        one.loads = {one.loads[2], one.loads[0], one.loads[1]};
      }
    }
    AddReport(report, ordered);
    AddReport(other, shuffled);
  }
  EXPECT_EQ(ordered.costs, shuffled.costs);
  EXPECT_NEAR(Costs(ordered.costs)->per_unit[0], 0.02, 0.01);
}

// A report without timings does not say which loads the job has.
TEST(JobFitTest, OtherLoadsEndTheCostsOfThoseBefore) {
  RandomStream random(4);
  JobFit fit;
  uint64_t step = 0;
  for (; step < 60; ++step) {
    AddReport(WithLoads(random, RandomReport(random, step), {"patches"}), fit);
  }
  EXPECT_NEAR(Costs(fit.costs)->per_unit[0], 0.02, 0.002);
  const StepReport empty = {.step = step++,
                            .microbatches = {{.milliseconds = 3, .rank = 0, .slot = 9}}};
  EXPECT_TRUE(AddReport(empty, fit));
  EXPECT_NEAR(Costs(fit.costs)->per_unit[0], 0.02, 0.002);

  AddReport(WithLoads(random, RandomReport(random, step++), {"images"}), fit);
  EXPECT_EQ(fit.costs.load_names, std::vector<std::string>({"images"}));
  EXPECT_EQ(Costs(fit.costs)->per_unit, std::vector<double>({0}));
  AddReport(RandomReport(random, step), fit);
  EXPECT_EQ(Costs(fit.costs)->per_unit, std::vector<double>());
}

// Times of a stage or of a group's ranks become costs of the whole model on one rank.
TEST(JobFitTest, CostsOfGroupsAndStagesAreThoseOfTheWholeModelOnOneRank) {
  const TrueCosts& truth = testing::kReportedCosts;
  for (const uint64_t seed : testing::Seeds(20)) {
    RandomStream random(seed);
    JobFit fit;
    for (uint64_t step = 0; step < 200; ++step) {
      const StepReport report = random.Chance(50)
                                    ? RandomReportOfGroups(random, step, /*says_sequences=*/false)
                                    : RandomReport(random, step);
      ASSERT_TRUE(report.Validate().ok()) << report.Validate();
      AddReport(report, fit);
    }
    const FittedCosts costs = Costs(fit.costs).value();
    EXPECT_NEAR(costs.per_token / truth.per_token, 1, 0.03) << seed;
    EXPECT_NEAR(costs.per_token_squared / truth.per_token_squared, 1, 0.03) << seed;
    EXPECT_NEAR(costs.per_microbatch / truth.per_microbatch, 1, 0.03) << seed;
  }
}

// Each rank of a group counts its sequences in full.
TEST(JobFitTest, ADozenExactTimesOfGroupsAndStagesTellAllCoefficients) {
  const TrueCosts truth = {
      .per_token = 0.02, .per_token_squared = 4e-6, .per_microbatch = 12, .per_sequence = 0.5};
  StepReport report;
  for (const uint32_t ranks : {1, 4, 16}) {
    for (const uint64_t sequences : {1, 6, 40}) {
      for (const uint64_t length : {512, 8192}) {
        const uint64_t tokens = sequences * length;
        const double share = sequences == 6 ? 0.25 : 1;
        const double whole = truth.Of({.tokens = static_cast<double>(tokens),
                                       .tokens_squared = static_cast<double>(tokens * length),
                                       .sequences = static_cast<double>(sequences),
                                       .context_parallel = static_cast<double>(ranks)});
        report.microbatches.push_back({.tokens = tokens,
                                       .tokens_squared = tokens * length,
                                       .milliseconds = whole * share,
                                       .sequences = sequences,
                                       .context_parallel = ranks,
                                       .model_share = share});
      }
    }
  }
  ASSERT_TRUE(report.Validate().ok()) << report.Validate();
  const FittedCosts costs = CostsOf(report);
  EXPECT_NEAR(costs.per_token / truth.per_token, 1, 1e-6);
  EXPECT_NEAR(costs.per_token_squared / truth.per_token_squared, 1, 1e-6);
  EXPECT_NEAR(costs.per_microbatch / truth.per_microbatch, 1, 1e-6);
  EXPECT_NEAR(costs.per_sequence / truth.per_sequence, 1, 1e-6);
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
        WrongReport{"AGroupBeyondAll",
                    [](auto& report) { report.microbatches[1].context_parallel = 65537; },
                    HasSubstr("microbatches[1].context_parallel is 65537; the limit is 65536")},
        WrongReport{"MoreThanTheModel",
                    [](auto& report) { report.microbatches[1].model_share = 1.5; },
                    HasSubstr("microbatches[1].model_share is 1.5; it must be between 0 and 1")},
        WrongReport{"LessThanNothingOfTheModel",
                    [](auto& report) { report.microbatches[1].model_share = -0.5; },
                    HasSubstr("microbatches[1].model_share is -0.5; it must be between 0 and 1")},
        WrongReport{"AShareThatIsNone",
                    [](auto& report) { report.microbatches[1].model_share = std::nan(""); },
                    HasSubstr("microbatches[1].model_share is nan; it must be between 0 and 1")},
        WrongReport{"AModelThatTakesMoreThanADay",
                    [](auto& report) { report.microbatches[1].model_share = 1e-8; },
                    AllOf(HasSubstr("microbatches[1].milliseconds is 3 of model_share=1e-08"),
                          HasSubstr("at most 8.64e+07"))},
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
        WrongReport{"TooManyLoads", [](auto& report) { report.loads.resize(9, "patches"); },
                    HasSubstr("loads has 9 names; the limit is 8")},
        WrongReport{"ALoadOfNoName", [](auto& report) { report.loads = {"patches", ""}; },
                    HasSubstr("loads[1] has 0 bytes; it must have 1 to 64")},
        WrongReport{"ALoadOfALongName",
                    [](auto& report) { report.loads = {std::string(65, 'a')}; },
                    HasSubstr("loads[0] has 65 bytes; it must have 1 to 64")},
        WrongReport{"ALoadOfANameThatIsNotSeen", [](auto& report) { report.loads = {"a\n"}; },
                    AllOf(HasSubstr("loads[0]"), HasSubstr("has U+000A"))},
        WrongReport{"TwoLoadsOfOneName",
                    [](auto& report) { report.loads = {"patches", "frames", "patches"}; },
                    HasSubstr("loads[2] is \"patches\", which an earlier one is")},
        WrongReport{"LoadsThatAreNotSaid", [](auto& report) { report.loads = {"patches"}; },
                    HasSubstr("microbatches[0].loads has 0 sums, but loads has 1 names")},
        WrongReport{"LoadsWithoutNames",
                    [](auto& report) {
                      report.microbatches[1].loads = {1, 2};
                    },
                    HasSubstr("microbatches[1].loads has 2 sums, but loads has 0 names")},
        WrongReport{"ALoadBelowZero",
                    [](auto& report) {
                      report.loads = {"patches"};
                      report.microbatches[0].loads = {0};
                      report.microbatches[1].loads = {-1};
                    },
                    AllOf(HasSubstr("microbatches[1].loads[0] is -1; it must be 0, or between"),
                          HasSubstr("1e-20 and 1e+30"))},
        WrongReport{"ALoadWithoutEnd",
                    [](auto& report) {
                      report.loads = {"patches"};
                      report.microbatches[0].loads = {std::numeric_limits<double>::infinity()};
                    },
                    HasSubstr("microbatches[0].loads[0] is inf")},
        WrongReport{"ALoadThatIsNoNumber",
                    [](auto& report) {
                      report.loads = {"patches"};
                      report.microbatches[0].loads = {std::nan("")};
                    },
                    HasSubstr("microbatches[0].loads[0] is nan")},
        WrongReport{"TooManyMicrobatches",
                    [](auto& report) {
                      report.microbatches.resize(kMaxReportedMicrobatches + 1,
                                                 report.microbatches[0]);
                    },
                    AllOf(HasSubstr("microbatches has 65537"), HasSubstr("65536"))}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace batchplan
