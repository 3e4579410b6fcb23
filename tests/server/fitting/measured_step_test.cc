#include "server/fitting/measured_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/server/fitting/timings.h"

namespace batchplan {
namespace {

using testing::RandomStream;

// times[b][s][r] is the time of rank r for slot s of mini-batch b.
using Times = std::vector<std::vector<std::vector<double>>>;

StepReport ReportOf(const Times& times, uint32_t ranks) {
  StepReport report = {.step = 1, .microbatches = {}, .data_parallel = ranks};
  for (uint32_t mini_batch = 0; mini_batch < times.size(); ++mini_batch) {
    for (uint32_t slot = 0; slot < times[mini_batch].size(); ++slot) {
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        report.microbatches.push_back({.tokens = 1,
                                       .tokens_squared = 1,
                                       .milliseconds = times[mini_batch][slot][rank],
                                       .rank = rank,
                                       .slot = slot,
                                       .mini_batch = mini_batch});
      }
    }
  }
  return report;
}

Times RandomTimes(RandomStream& random, uint32_t ranks) {
  Times times(random.Between(1, 4));
  for (auto& slots : times) {
    slots.resize(random.Between(1, 5), std::vector<double>(ranks));
    for (auto& slot : slots) {
      for (double& time : slot) time = static_cast<double>(random.Between(1, 100));
    }
  }
  return times;
}

// By definition.
double Lockstep(const Times& times) {
  double step = 0;
  for (const auto& slots : times) {
    for (const auto& slot : slots) step += std::ranges::max(slot);
  }
  return step;
}

double Accumulated(const Times& times, uint32_t ranks) {
  double step = 0;
  for (const auto& slots : times) {
    double slowest = 0;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      double sum = 0;
      for (const auto& slot : slots) sum += slot[rank];
      slowest = std::max(slowest, sum);
    }
    step += slowest;
  }
  return step;
}

TEST(MeasuredStepTest, IsWhatTheSlowestRanksTookInWhateverOrderTheyAreReported) {
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    const auto ranks = static_cast<uint32_t>(random.Between(1, 6));
    const Times times = RandomTimes(random, ranks);
    StepReport report = ReportOf(times, ranks);
    for (size_t i = report.microbatches.size(); i > 1; --i) {
      std::swap(report.microbatches[i - 1], report.microbatches[random.Between(0, i - 1)]);
    }
    double computed = 0;
    for (const ReportedMicrobatch& one : report.microbatches) computed += one.milliseconds;
    for (const bool accumulated : {false, true}) {
      report.accumulated = accumulated;
      const double took = accumulated ? Accumulated(times, ranks) : Lockstep(times);
      const auto step = MeasureStep(report);
      ASSERT_TRUE(step.has_value()) << seed;
      // Sums of whole numbers are exact.
      EXPECT_EQ(step->milliseconds, took) << seed;
      EXPECT_NEAR(step->waited_share, 1 - computed / (took * ranks), 1e-12) << seed;
      EXPECT_GE(step->waited_share, 0) << seed;
    }
  }
}

TEST(MeasuredStepTest, IsNotKnownWhereOneIsMissingOrTwice) {
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    const auto ranks = static_cast<uint32_t>(random.Between(2, 6));
    const StepReport whole = ReportOf(RandomTimes(random, ranks), ranks);
    const size_t place = random.Between(0, whole.microbatches.size() - 1);
    const auto expect_unknown = [&](auto change) {
      StepReport report = whole;
      change(report);
      EXPECT_FALSE(MeasureStep(report).has_value()) << seed;
    };
    expect_unknown([&](StepReport& report) {
      report.microbatches.erase(report.microbatches.begin() + static_cast<std::ptrdiff_t>(place));
    });
    expect_unknown([&](StepReport& report) {
      report.microbatches.push_back(ReportedMicrobatch(report.microbatches[place]));
    });
    expect_unknown([&](StepReport& report) { report.microbatches[place].rank.reset(); });
    expect_unknown([&](StepReport& report) { report.microbatches[place].slot.reset(); });
    expect_unknown([&](StepReport& report) { report.microbatches[place].slot = 4'294'967'295; });
    expect_unknown(
        [&](StepReport& report) { report.microbatches[place].mini_batch = 4'294'967'295; });
    expect_unknown([&](StepReport& report) { report.data_parallel = 0; });
    expect_unknown([&](StepReport& report) { report.data_parallel = ranks + 1; });
  }
}

TEST(MeasuredStepTest, SlotsAndMiniBatchesCountFromZero) {
  StepReport report = ReportOf({{{1, 2}}, {{3, 4}}}, 2);
  ASSERT_TRUE(MeasureStep(report).has_value());
  for (ReportedMicrobatch& one : report.microbatches) ++one.mini_batch;
  EXPECT_FALSE(MeasureStep(report).has_value());
  report = ReportOf({{{1, 2}}}, 2);
  for (ReportedMicrobatch& one : report.microbatches) one.slot = 1;
  EXPECT_FALSE(MeasureStep(report).has_value());
}

// Rank 1's second micro-batch belongs to the next mini-batch.
TEST(MeasuredStepTest, ASlotIsOfOneMiniBatch) {
  StepReport report = ReportOf({{{1, 2}, {3, 4}}}, 2);
  ASSERT_TRUE(MeasureStep(report).has_value());
  report.microbatches.back().mini_batch = 1;
  report.microbatches.back().slot = 0;
  for (const bool accumulated : {false, true}) {
    report.accumulated = accumulated;
    EXPECT_FALSE(MeasureStep(report).has_value());
  }
}

// Stages of a pipeline wait for each other too.
TEST(MeasuredStepTest, IsNotKnownOfAPartOfTheModel) {
  StepReport report = ReportOf({{{1, 2}, {3, 4}}}, 2);
  for (ReportedMicrobatch& one : report.microbatches) one.context_parallel = 8;
  EXPECT_TRUE(MeasureStep(report).has_value());
  report.microbatches.back().model_share = 0.5;
  EXPECT_FALSE(MeasureStep(report).has_value());
}

TEST(MeasuredStepTest, NothingTookNoTime) {
  EXPECT_FALSE(MeasureStep({.step = 1, .microbatches = {}, .data_parallel = 1}).has_value());
}

}  // namespace
}  // namespace batchplan
