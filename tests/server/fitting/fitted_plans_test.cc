// The purpose of fitted costs: faster plans.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "server/fitting/job_fit.h"
#include "tests/server/fitting/timings.h"
#include "tests/support/checked_plan.h"

namespace batchplan {
namespace {

using testing::RandomStream;
using testing::TrueCosts;

constexpr uint32_t kRanks = 8;
constexpr size_t kSequences = 256;
constexpr int kSteps = 20;

// A kind of training job: its sequences, its budget, and the true costs of its device.
struct Job {
  std::string name;
  std::vector<uint32_t> (*lengths)(size_t count, uint64_t seed);
  uint32_t budget;
  TrueCosts truth;
};

PlanOptions OptionsOf(const Job& job) {
  PlanOptions options;
  options.topology.data_parallel = kRanks;
  options.effort = Effort::kFast;
  options.passes.resize(1);
  options.passes[0].max_tokens_per_microbatch = job.budget;
  return options;
}

std::vector<TimingSample> MicrobatchesOf(const PassPlan& pass) {
  std::vector<TimingSample> microbatches;
  for (const std::vector<uint32_t>& lengths : testing::LengthsOf(pass)) {
    TimingSample sample = {.sequences = static_cast<double>(lengths.size())};
    for (const double length : lengths) {
      sample.tokens += length;
      sample.tokens_squared += length * length;
    }
    microbatches.push_back(sample);
  }
  return microbatches;
}

// In lockstep: ranks wait for each other after each micro-batch.
double StepTime(const PassPlan& pass, const TrueCosts& truth) {
  const std::vector<TimingSample> microbatches = MicrobatchesOf(pass);
  const size_t slots = pass.microbatches_per_rank[0];
  double time = 0;
  for (size_t slot = 0; slot < slots; ++slot) {
    double slowest = 0;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      slowest = std::max(slowest, truth.Of(microbatches[rank * slots + slot]));
    }
    time += slowest;
  }
  return time;
}

// The costs fitted to kSteps steps that were planned with the default costs.
CostModel FittedTo(const Job& job, uint64_t seed) {
  RandomStream random(seed);
  JobFit fit;
  for (uint64_t step = 0; step < kSteps; ++step) {
    const std::vector<uint32_t> lengths = job.lengths(kSequences, 1000 * seed + step);
    const absl::StatusOr<Plan> plan = testing::MakeCheckedPlan(lengths, OptionsOf(job));
    if (!plan.ok()) {
      ADD_FAILURE() << plan.status();
      return {};
    }
    StepReport report = {.step = step, .microbatches = {}};
    for (const TimingSample& microbatch : MicrobatchesOf(plan->passes[0])) {
      const TimingSample timed = testing::TimedWithSequences(random, microbatch, job.truth, {});
      report.microbatches.push_back({.tokens = static_cast<uint64_t>(timed.tokens),
                                     .tokens_squared = static_cast<uint64_t>(timed.tokens_squared),
                                     .milliseconds = timed.milliseconds,
                                     .sequences = static_cast<uint64_t>(timed.sequences)});
    }
    EXPECT_TRUE(report.Validate().ok());
    EXPECT_TRUE(AddReport(report, fit));
  }
  const FittedCosts costs = Costs(fit.costs).value();
  return {.per_token = costs.per_token,
          .per_token_squared = costs.per_token_squared,
          .per_microbatch = costs.per_microbatch,
          .per_sequence = costs.per_sequence};
}

class FittedPlansTest : public ::testing::TestWithParam<Job> {};

TEST_P(FittedPlansTest, TakeLessTimeThanPlansByTheDefaultCosts) {
  const Job& job = GetParam();
  double fitted_total = 0;
  double default_total = 0;
  for (const uint64_t seed : testing::Seeds(5)) {
    PlanOptions options = OptionsOf(job);
    const CostModel fitted = FittedTo(job, seed);
    for (uint64_t batch = 0; batch < 5; ++batch) {
      const std::vector<uint32_t> lengths = job.lengths(kSequences, 7777 * seed + batch);
      options.cost_model = {};
      const absl::StatusOr<Plan> by_default = testing::MakeCheckedPlan(lengths, options);
      options.cost_model = fitted;
      const absl::StatusOr<Plan> by_fit = testing::MakeCheckedPlan(lengths, options);
      ASSERT_TRUE(by_default.ok() && by_fit.ok()) << by_fit.status();
      EXPECT_EQ(by_fit->cost_model_used.per_token, fitted.per_token);
      const double default_time = StepTime(by_default->passes[0], job.truth);
      const double fitted_time = StepTime(by_fit->passes[0], job.truth);
      EXPECT_LE(fitted_time, default_time) << seed << " " << batch;
      fitted_total += fitted_time;
      default_total += default_time;
    }
  }
  RecordProperty("time_saved", std::to_string(1 - fitted_total / default_total));
  EXPECT_LT(fitted_total, 0.99 * default_total);
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, FittedPlansTest,
    ::testing::Values(
        Job{"DearAttention",
            testing::LongCotLengths,
            65536,
            {.per_token = 0.01, .per_token_squared = 0.01 * 8 / 24576, .per_microbatch = 30}},
        Job{"CheapAttention",
            testing::LongCotLengths,
            65536,
            {.per_token = 0.01, .per_token_squared = 0.01 / 8 / 24576, .per_microbatch = 30}},
        Job{"DearSequences",
            testing::ZipfLengths,
            8192,
            {.per_token = 0.01,
             .per_token_squared = 0.01 / 24576,
             .per_microbatch = 3,
             .per_sequence = 3}},
        Job{"AgentsWithDearAttention",
            testing::AgenticLengths,
            32768,
            {.per_token = 0.01, .per_token_squared = 0.01 * 8 / 24576, .per_microbatch = 30}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace batchplan
