#include "server/telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>
#include <thread>
#include <vector>

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const Metrics& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.registry()->Collect());
}

TEST(MetricsTest, AllSeriesExistBeforeTheFirstCall) {
  const Metrics metrics("1.2.3");
  const std::string text = Text(metrics);
  for (const char* line :
       {"batchplan_build_info{version=\"1.2.3\"} 1\n",
        "batchplan_plans_total{preset=\"nemo_rl_packing\"} 0\n",
        "batchplan_plans_total{preset=\"other\"} 0\n",
        "batchplan_errors_total{code=\"INVALID_ARGUMENT\"} 0\n",
        "batchplan_errors_total{code=\"UNAUTHENTICATED\"} 0\n", "batchplan_microbatches_total 0\n",
        "batchplan_true_tokens_total 0\n", "batchplan_scheduled_tokens_total 0\n",
        "batchplan_naive_tokens_total 0\n", "batchplan_plan_check_failures_total 0\n",
        "batchplan_queue_depth 0\n", "batchplan_queue_sequences 0\n",
        "batchplan_queue_seconds_count 0\n", "batchplan_refusals_total{reason=\"pushed_out\"} 0\n",
        "batchplan_planning_seconds_count 0\n", "batchplan_sequences_per_plan_count 0\n",
        "batchplan_bin_utilization_count 0\n", "batchplan_rank_cost_imbalance_count 0\n",
        "batchplan_step_efficiency_count 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MetricsTest, APlanIsReadFromTheCounters) {
  Metrics metrics("1");
  metrics.RecordPlan({.preset = "nemo_rl_packing",
                      .sequences = 100,
                      .planning_seconds = 0.003,
                      .microbatches = 8,
                      .true_tokens = 900,
                      .scheduled_tokens = 1000,
                      .naive_tokens = 4000});
  metrics.RecordPass(
      {.bin_utilization = 0.875, .rank_cost_imbalance = 1.25, .step_efficiency = 0.5});
  const std::string text = Text(metrics);
  for (const char* line :
       {"batchplan_plans_total{preset=\"nemo_rl_packing\"} 1\n", "batchplan_microbatches_total 8\n",
        "batchplan_true_tokens_total 900\n", "batchplan_scheduled_tokens_total 1000\n",
        "batchplan_naive_tokens_total 4000\n", "batchplan_sequences_per_plan_sum 100\n",
        "batchplan_sequences_per_plan_bucket{le=\"64\"} 0\n",
        "batchplan_sequences_per_plan_bucket{le=\"256\"} 1\n",
        "batchplan_planning_seconds_bucket{le=\"0.0025\"} 0\n",
        "batchplan_planning_seconds_bucket{le=\"0.005\"} 1\n",
        "batchplan_bin_utilization_sum 0.875\n", "batchplan_rank_cost_imbalance_sum 1.25\n",
        "batchplan_step_efficiency_sum 0.5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MetricsTest, ClientsCannotAddSeries) {
  Metrics metrics("1");
  for (int i = 0; i < 100; ++i) {
    const std::string preset = "made_up_" + std::to_string(i);
    metrics.RecordPlan({.preset = preset});
  }
  metrics.RecordPlan({.preset = ""});
  const std::string text = Text(metrics);
  EXPECT_THAT(text, Not(HasSubstr("made_up")));
  EXPECT_THAT(text, HasSubstr("batchplan_plans_total{preset=\"other\"} 100\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_plans_total{preset=\"unset\"} 1\n"));
}

TEST(MetricsTest, ErrorsAreCountedByCode) {
  Metrics metrics("1");
  metrics.RecordError(absl::StatusCode::kResourceExhausted);
  metrics.RecordError(absl::StatusCode::kResourceExhausted);
  metrics.RecordError(static_cast<absl::StatusCode>(99));
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("batchplan_errors_total{code=\"RESOURCE_EXHAUSTED\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_errors_total{code=\"UNKNOWN\"} 1\n"));
}

TEST(MetricsTest, JobsHaveSeriesOfTheirOwnWithinTheLimit) {
  Metrics metrics("1", {.max_labels = 2});
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  metrics.RecordJobPlan("grpo", 100, start);
  metrics.RecordJobPlan("grpo", 50, start);
  metrics.RecordJobError("sft", start);
  for (int i = 0; i < 100; ++i) metrics.RecordJobPlan("job-" + std::to_string(i), 1, start);
  metrics.RecordJobPlan("", 7, start);
  std::string text = Text(metrics);
  for (const char* line : {"batchplan_job_plans_total{job=\"grpo\"} 2\n",
                           "batchplan_job_sequences_total{job=\"grpo\"} 150\n",
                           "batchplan_job_errors_total{job=\"sft\"} 1\n",
                           "batchplan_job_plans_total{job=\"other\"} 100\n",
                           "batchplan_job_sequences_total{job=\"unset\"} 7\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("job-")));

  metrics.RecordJobPlan("dpo", 9, start + absl::Hours(1));
  text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("batchplan_job_sequences_total{job=\"dpo\"} 9\n"));
  EXPECT_THAT(text, Not(HasSubstr("grpo")));

  for (int i = 0; i < 10; ++i) metrics.RecordJobPlan("busy", 1, start + absl::Hours(1));
  text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("batchplan_job_plans_total{job=\"busy\"}"));
  EXPECT_THAT(text, Not(HasSubstr("sft")));
}

TEST(MetricsTest, JobsMayComeAndGoOnManyThreads) {
  Metrics metrics("1", {.max_labels = 3});
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&metrics, i] {
      for (int j = 0; j < 500; ++j) {
        // Others every hour and a half or so.
        const std::string job = "job-" + std::to_string(3 * (j / 100) + i % 3);
        const absl::Time now = absl::UnixEpoch() + absl::Minutes(j);
        metrics.RecordJobPlan(job, 1, now);
        metrics.RecordJobError(job, now);
      }
    });
  }
  threads.clear();
  const std::string text = Text(metrics);
  size_t series = 0;
  for (size_t at = text.find("batchplan_job_plans_total{"); at != std::string::npos;
       at = text.find("batchplan_job_plans_total{", at + 1)) {
    ++series;
  }
  // And "other".
  EXPECT_LE(series, 4U);
}

TEST(MetricsTest, ManyThreadsMayRecord) {
  Metrics metrics("1");
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&metrics] {
      for (int j = 0; j < 1000; ++j) {
        metrics.RecordQueue(1, 300);
        metrics.RecordPlan({.preset = "verl", .microbatches = 2});
        metrics.RecordCheckFailure();
        metrics.RecordQueue(0, 0);
      }
    });
  }
  threads.clear();
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("batchplan_plans_total{preset=\"verl\"} 4000\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_microbatches_total 8000\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_plan_check_failures_total 4000\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_queue_depth 0\n"));
}

}  // namespace
}  // namespace batchplan
