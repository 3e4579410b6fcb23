#include "server/telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/telemetry/metric_catalog.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const Metrics& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.collectable()->Collect());
}

TEST(MetricsTest, AllSeriesExistBeforeTheFirstCall) {
  const Metrics metrics("1.2.3");
  const std::string text = Text(metrics);
  for (const char* line :
       {"batchplan_build_info{version=\"1.2.3\"} 1\n",
        "batchplan_plans_total{preset=\"nemo_rl_packing\"} 0\n",
        "batchplan_plans_total{preset=\"other\"} 0\n",
        "batchplan_requests_total{code=\"OK\",method=\"PlanBatch\"} 0\n",
        "batchplan_requests_total{code=\"UNAUTHENTICATED\",method=\"other\"} 0\n",
        "batchplan_requests_in_flight{method=\"JoinBatch\"} 0\n",
        "batchplan_request_seconds_count{method=\"ReportStep\"} 0\n",
        "batchplan_joins_total{outcome=\"expired\"} 0\n",
        "batchplan_store_up 1\n",
        "batchplan_store_errors_total{operation=\"put_part\"} 0\n",
        "batchplan_budget_tokens_total 0\n",
        "batchplan_microbatches_total 0\n",
        "batchplan_true_tokens_total 0\n",
        "batchplan_laid_tokens_total 0\n",
        "batchplan_unique_tokens_total 0\n",
        "batchplan_scheduled_tokens_total 0\n",
        "batchplan_naive_tokens_total 0\n",
        "batchplan_plan_check_failures_total 0\n",
        "batchplan_queue_depth 0\n",
        "batchplan_queue_sequences 0\n",
        "batchplan_queue_seconds_count 0\n",
        "batchplan_refusals_total{reason=\"pushed_out\"} 0\n",
        "batchplan_sequences_per_plan_count 0\n",
        "batchplan_bin_utilization_count 0\n",
        "batchplan_rank_cost_imbalance_count 0\n",
        "batchplan_step_efficiency_count 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MetricsTest, APlanIsReadFromTheCounters) {
  Metrics metrics("1");
  // The second pass has more tokens than its padded batch would, and its sequences cost nothing.
  const PassRecord passes[] = {{.metrics = {.microbatches = 8,
                                            .lower_bound_microbatches = 7,
                                            .true_tokens = 900,
                                            .scheduled_tokens = 1000,
                                            .naive_tokens = 4000,
                                            .bin_utilization = 0.875,
                                            .bin_balance = 0.25,
                                            .packing_efficiency = 0.625,
                                            .padding_removed = 0.75,
                                            .rank_cost_imbalance = 1.25,
                                            .lower_bound_step_time = 8,
                                            .predicted_step_time = 9,
                                            .step_efficiency = 0.5,
                                            .pipeline_bubble = 0.375,
                                            .laid_tokens = 700,
                                            .unique_tokens = 600},
                                .budget_tokens = 1024,
                                .on_pipelines = true},
                               {.metrics = {.microbatches = 2,
                                            .true_tokens = 100,
                                            .bin_utilization = 0.125,
                                            .bin_balance = 1,
                                            .padding_removed = -0.25},
                                .budget_tokens = 800}};
  metrics.RecordPlan({.job_id = "grpo",
                      .preset = "nemo_rl_packing",
                      .sequences = 100,
                      .planning_seconds = 0.003,
                      .passes = passes},
                     absl::UnixEpoch());
  const std::string text = Text(metrics);
  const std::string planning =
      "batchplan_planning_seconds_bucket{preset=\"nemo_rl_packing\",size=\"le_256\",";
  for (const std::string& line :
       {std::string("batchplan_plans_total{preset=\"nemo_rl_packing\"} 1\n"),
        std::string("batchplan_microbatches_total 10\n"),
        std::string("batchplan_lower_bound_microbatches_total 7\n"),
        std::string("batchplan_true_tokens_total 1000\n"),
        // The second pass shares nothing: its rows have all its tokens.
        std::string("batchplan_laid_tokens_total 800\n"),
        std::string("batchplan_unique_tokens_total 700\n"),
        std::string("batchplan_scheduled_tokens_total 1000\n"),
        std::string("batchplan_naive_tokens_total 4000\n"),
        std::string("batchplan_budget_tokens_total 1824\n"),
        std::string("batchplan_sequences_per_plan_sum 100\n"),
        std::string("batchplan_sequences_per_plan_bucket{le=\"64\"} 0\n"),
        std::string("batchplan_sequences_per_plan_bucket{le=\"256\"} 1\n"),
        planning + "le=\"0.0025\"} 0\n", planning + "le=\"0.005\"} 1\n",
        std::string("batchplan_bin_utilization_sum 1\n"),
        std::string("batchplan_bin_spread_sum 0.75\n"),
        std::string("batchplan_packing_efficiency_sum 0.625\n"),
        std::string("batchplan_padding_removed_sum 0.75\n"),
        std::string("batchplan_rank_cost_imbalance_sum 1.25\n"),
        std::string("batchplan_step_efficiency_sum 0.5\n"),
        std::string("batchplan_step_time_over_bound_sum 2.125\n"),
        std::string("batchplan_pipeline_bubble_sum 0.375\n"),
        std::string("batchplan_pipeline_bubble_count 1\n"),
        std::string("batchplan_job_pipeline_bubble_sum{job_id=\"grpo\"} 0.375\n"),
        std::string("batchplan_job_pipeline_bubble_count{job_id=\"grpo\"} 1\n"),
        std::string("batchplan_job_plans_total{job_id=\"grpo\"} 1\n"),
        std::string("batchplan_job_sequences_total{job_id=\"grpo\"} 100\n"),
        std::string("batchplan_job_true_tokens_total{job_id=\"grpo\"} 1000\n"),
        std::string("batchplan_job_laid_tokens_total{job_id=\"grpo\"} 800\n"),
        std::string("batchplan_job_unique_tokens_total{job_id=\"grpo\"} 700\n"),
        std::string("batchplan_job_scheduled_tokens_total{job_id=\"grpo\"} 1000\n"),
        std::string("batchplan_job_naive_tokens_total{job_id=\"grpo\"} 4000\n"),
        std::string("batchplan_job_budget_tokens_total{job_id=\"grpo\"} 1824\n"),
        std::string("batchplan_job_microbatches_total{job_id=\"grpo\"} 10\n"),
        std::string("batchplan_job_lower_bound_microbatches_total{job_id=\"grpo\"} 7\n"),
        std::string("batchplan_job_bin_spread_sum{job_id=\"grpo\"} 0.75\n"),
        std::string("batchplan_job_packing_efficiency_sum{job_id=\"grpo\"} 0.625\n"),
        std::string("batchplan_job_rank_cost_imbalance_sum{job_id=\"grpo\"} 1.25\n"),
        std::string("batchplan_job_step_efficiency_sum{job_id=\"grpo\"} 0.5\n"),
        std::string("batchplan_job_step_efficiency_count{job_id=\"grpo\"} 2\n"),
        std::string("batchplan_job_step_time_over_bound_sum{job_id=\"grpo\"} 2.125\n")}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MetricsTest, PlanningIsTimedByPresetAndSize) {
  Metrics metrics("1");
  for (const uint64_t sequences : {1, 256, 257, 4097, 65537}) {
    metrics.RecordPlan({.preset = "verl", .sequences = sequences}, absl::UnixEpoch());
  }
  metrics.RecordPlan({.preset = "made_up", .sequences = 1}, absl::UnixEpoch());
  const std::string text = Text(metrics);
  const std::string verl = "batchplan_planning_seconds_count{preset=\"verl\",size=";
  for (const char* end :
       {"\"le_256\"} 2\n", "\"le_4096\"} 1\n", "\"le_65536\"} 1\n", "\"larger\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(verl + end));
  }
  EXPECT_THAT(text, HasSubstr("batchplan_planning_seconds_count{preset=\"other\","));
}

TEST(MetricsTest, ClientsCannotAddSeries) {
  Metrics metrics("1");
  for (int i = 0; i < 100; ++i) {
    const std::string preset = "made_up_" + std::to_string(i);
    metrics.RecordPlan({.preset = preset}, absl::UnixEpoch());
  }
  metrics.RecordPlan({.preset = ""}, absl::UnixEpoch());
  const std::string text = Text(metrics);
  EXPECT_THAT(text, Not(HasSubstr("made_up")));
  EXPECT_THAT(text, HasSubstr("batchplan_plans_total{preset=\"other\"} 100\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_plans_total{preset=\"unset\"} 1\n"));
}

TEST(MetricsTest, CallsAreCountedByMethodAndCode) {
  Metrics metrics("1");
  metrics.BeginCall("PlanBatch");
  metrics.BeginCall("PlanBatch");
  metrics.EndCall("PlanBatch", absl::StatusCode::kResourceExhausted, 0.25);
  metrics.BeginCall("Unheard");
  metrics.EndCall("Unheard", static_cast<absl::StatusCode>(99), 0);
  metrics.RecordTurnedAway("JoinBatch", absl::StatusCode::kUnauthenticated);
  const std::string text = Text(metrics);
  for (const char* line :
       {"batchplan_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"PlanBatch\"} 1\n",
        "batchplan_requests_in_flight{method=\"PlanBatch\"} 1\n",
        "batchplan_request_seconds_sum{method=\"PlanBatch\"} 0.25\n",
        "batchplan_requests_total{code=\"UNKNOWN\",method=\"other\"} 1\n",
        "batchplan_requests_in_flight{method=\"other\"} 0\n",
        "batchplan_requests_total{code=\"UNAUTHENTICATED\",method=\"JoinBatch\"} 1\n",
        "batchplan_requests_in_flight{method=\"JoinBatch\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MetricsTest, JoinsAreCountedByWhatCameOfThem) {
  Metrics metrics("1");
  metrics.RecordJoin(absl::OkStatus(), 1.5);
  metrics.RecordJoin(absl::DeadlineExceededError(""), 9);
  metrics.RecordJoin(absl::CancelledError(""), 9);
  metrics.RecordJoin(absl::ResourceExhaustedError(""), 9);
  metrics.RecordJoin(absl::UnavailableError(""), 9);
  metrics.RecordJoin(absl::InvalidArgumentError(""), 9);
  const std::string text = Text(metrics);
  for (const char* outcome :
       {"joined", "expired", "cancelled", "refused", "unavailable", "failed"}) {
    EXPECT_THAT(text,
                HasSubstr("batchplan_joins_total{outcome=\"" + std::string(outcome) + "\"} 1\n"));
  }
  EXPECT_THAT(text, HasSubstr("batchplan_join_seconds_sum 1.5\n"));
}

TEST(MetricsTest, AStoreIsUpIfItWasReached) {
  Metrics metrics("1");
  metrics.RecordStoreCall(StoreOperation::kPutPart, absl::StatusCode::kUnavailable, 0.5);
  std::string text = Text(metrics);
  for (const char* line :
       {"batchplan_store_up 0\n", "batchplan_store_errors_total{operation=\"put_part\"} 1\n",
        "batchplan_store_seconds_sum{operation=\"put_part\"} 0.5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  metrics.RecordStoreCall(StoreOperation::kParts, absl::StatusCode::kNotFound, 0.5);
  text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("batchplan_store_up 1\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_store_errors_total{operation=\"parts\"} 0\n"));
}

TEST(MetricsTest, AFitIsShownOnlyOfAJobWithALabel) {
  Metrics metrics("1", {.max_labels = 1});
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  metrics.RecordJobFit("grpo",
                       {.seconds_per_token = 0.5,
                        .seconds_per_token_squared = 0.25,
                        .seconds_per_microbatch = 2,
                        .seconds_per_sequence = 0.75,
                        .error_ratio = 0.125,
                        .samples = 77},
                       start);
  metrics.RecordJobFit("sft", {.samples = 55}, start);
  std::string text = Text(metrics);
  const std::string cost = "batchplan_job_fitted_cost_seconds{coefficient=";
  for (const std::string& line :
       {cost + "\"per_token\",job_id=\"grpo\"} 0.5\n",
        cost + "\"per_token_squared\",job_id=\"grpo\"} 0.25\n",
        cost + "\"per_microbatch\",job_id=\"grpo\"} 2\n",
        cost + "\"per_sequence\",job_id=\"grpo\"} 0.75\n",
        std::string("batchplan_job_fit_error_ratio{job_id=\"grpo\"} 0.125\n"),
        std::string("batchplan_job_fit_samples{job_id=\"grpo\"} 77\n")}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("batchplan_job_fit_samples{job_id=\"other\"}")));
  EXPECT_THAT(text, Not(HasSubstr("batchplan_job_fitted_exchange_seconds{")));

  metrics.RecordJobError("dpo", start + absl::Hours(2));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("grpo")));
}

TEST(MetricsTest, WhatWaitsIsCounted) {
  Metrics metrics("1", {.max_labels = 2});
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  metrics.RecordPlan({.job_id = "grpo", .waiting = {.deferred = 7, .expired = 2, .mean_age = 1.5}},
                     start);
  metrics.RecordPlan({.job_id = "grpo", .waiting = {.deferred = 3}}, start);
  metrics.RecordPlan({.job_id = "sft"}, start);
  const std::string text = Text(metrics);
  for (const char* line :
       {"batchplan_mean_age_steps_sum 1.5\n", "batchplan_mean_age_steps_count 1\n",
        "batchplan_deferred_sequences_total 10\n", "batchplan_expired_sequences_total 2\n",
        "batchplan_job_mean_age_steps_sum{job_id=\"grpo\"} 1.5\n",
        "batchplan_job_deferred_sequences_total{job_id=\"grpo\"} 10\n",
        "batchplan_job_expired_sequences_total{job_id=\"grpo\"} 2\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("deferred_sequences_total{job_id=\"sft\"}")));
  metrics.RecordJobError("dpo", start + absl::Hours(2));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("grpo")));
}

TEST(MetricsTest, OfLoadsTheWorstIsObserved) {
  Metrics metrics("1", {.max_labels = 2});
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  PassRecord pass;
  pass.metrics.loads = {{.load = "patches", .rank_imbalance = 1.25},
                        {.load = "frames", .rank_imbalance = 1.75}};
  metrics.RecordPlan({.job_id = "images", .passes = {&pass, 1}}, start);
  pass.load_limit_use = 0.5;
  metrics.RecordPlan({.job_id = "images", .passes = {&pass, 1}}, start);
  const PassRecord without;
  metrics.RecordPlan({.job_id = "sft", .passes = {&without, 1}}, start);
  const std::string text = Text(metrics);
  for (const char* line : {"batchplan_job_load_imbalance_sum{job_id=\"images\"} 3.5\n",
                           "batchplan_job_load_imbalance_count{job_id=\"images\"} 2\n",
                           "batchplan_job_load_limit_use_sum{job_id=\"images\"} 0.5\n",
                           "batchplan_job_load_limit_use_count{job_id=\"images\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("load_imbalance_count{job_id=\"sft\"}")));
  metrics.RecordJobError("dpo", start + absl::Hours(2));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("images")));
}

TEST(MetricsTest, JobsWithoutPipelinesHaveNoBubbles) {
  Metrics metrics("1", {.max_labels = 2});
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  const PassRecord bubble{.metrics = {.pipeline_bubble = 0.5}, .on_pipelines = true};
  // Negative only by rounding.
  const PassRecord none{.metrics = {.pipeline_bubble = -1e-16}, .on_pipelines = true};
  const PassRecord elsewhere;
  metrics.RecordPlan({.job_id = "stages", .passes = {&bubble, 1}}, start);
  metrics.RecordPlan({.job_id = "stages", .passes = {&none, 1}}, start);
  metrics.RecordPlan({.job_id = "sft", .passes = {&elsewhere, 1}}, start);
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("batchplan_job_pipeline_bubble_sum{job_id=\"stages\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_job_pipeline_bubble_count{job_id=\"stages\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("bubble_count{job_id=\"sft\"}")));

  metrics.RecordJobError("dpo", start + absl::Hours(2));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("stages")));
}

TEST(MetricsTest, ExchangeIsShownOfTheSizesThatTheFitHasNow) {
  Metrics metrics("1", {.max_labels = 1});
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  FitRecord fit;
  fit.seconds_exchanged_per_token[ContextSizePlace(4)] = 0.5;
  fit.seconds_exchanged_per_token[ContextSizePlace(8)] = 0;
  fit.seconds_exchanged_per_token[ContextSizePlace(12)] = 0.25;
  metrics.RecordJobFit("grpo", fit, start);
  const std::string exchange = "batchplan_job_fitted_exchange_seconds{context_parallel=";
  std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr(exchange + "\"4\",job_id=\"grpo\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr(exchange + "\"8\",job_id=\"grpo\"} 0\n"));
  EXPECT_THAT(text, HasSubstr(exchange + "\"other\",job_id=\"grpo\"} 0.25\n"));

  fit.seconds_exchanged_per_token[ContextSizePlace(4)] = 0.75;
  fit.seconds_exchanged_per_token[ContextSizePlace(8)].reset();
  metrics.RecordJobFit("grpo", fit, start);
  text = Text(metrics);
  EXPECT_THAT(text, HasSubstr(exchange + "\"4\",job_id=\"grpo\"} 0.75\n"));
  EXPECT_THAT(text, Not(HasSubstr(exchange + "\"8\"")));

  metrics.RecordJobError("dpo", start + absl::Hours(2));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("grpo")));
}

TEST(MetricsTest, LoadsAreShownThatTheFitHasNow) {
  Metrics metrics("1", {.max_labels = 1});
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  FitRecord fit;
  metrics.RecordJobFit("grpo", fit, start);
  EXPECT_THAT(Text(metrics), Not(HasSubstr("batchplan_job_fitted_load_seconds{")));
  fit.seconds_per_load_unit = {{"patches", 0.5}, {"frames", 0}};
  metrics.RecordJobFit("grpo", fit, start);
  const std::string load = "batchplan_job_fitted_load_seconds{job_id=\"grpo\",load=";
  std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr(load + "\"patches\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr(load + "\"frames\"} 0\n"));

  fit.seconds_per_load_unit = {{"patches", 0.25}};
  metrics.RecordJobFit("grpo", fit, start);
  text = Text(metrics);
  EXPECT_THAT(text, HasSubstr(load + "\"patches\"} 0.25\n"));
  EXPECT_THAT(text, Not(HasSubstr(load + "\"frames\"")));

  metrics.RecordJobError("dpo", start + absl::Hours(2));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("grpo")));
}

TEST(MetricsTest, GroupsAreCountedBySize) {
  Metrics metrics("1", {.max_labels = 2});
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  PassRecord pass;
  pass.groups[ContextSizePlace(1)] = {.groups = 6, .tokens = 600};
  pass.groups[ContextSizePlace(65536)] = {.groups = 1, .tokens = 1000};
  pass.groups[ContextSizePlace(12)] = {.groups = 2, .tokens = 300};
  metrics.RecordPlan({.job_id = "grpo", .passes = {&pass, 1}}, start);
  metrics.RecordPlan({.job_id = "sft", .passes = {&pass, 1}}, start);
  const PassRecord alike;
  metrics.RecordPlan({.job_id = "sft", .passes = {&alike, 1}}, start);
  const std::string text = Text(metrics);
  for (const char* line : {"batchplan_context_groups_total{context_parallel=\"1\"} 12\n",
                           "batchplan_context_groups_total{context_parallel=\"65536\"} 2\n",
                           "batchplan_context_groups_total{context_parallel=\"other\"} 4\n",
                           "batchplan_context_group_tokens_total{context_parallel=\"1\"} 1200\n",
                           "batchplan_job_context_groups_total{context_parallel=\"1\","
                           "job_id=\"grpo\"} 6\n",
                           "batchplan_job_context_group_tokens_total{context_parallel=\"65536\","
                           "job_id=\"sft\"} 1000\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("context_parallel=\"2\"")));

  metrics.RecordJobError("dpo", start + absl::Hours(2));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("grpo")));
}

TEST(MetricsTest, StepsAreMeasuredOfTheJobsThatReportThem) {
  Metrics metrics("1", {.max_labels = 2});
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  metrics.RecordJobStep(
      "grpo", {.measured_seconds = 2, .waited_ratio = 0.25, .predicted_seconds = 1}, start);
  metrics.RecordJobStep(
      "grpo", {.measured_seconds = 4, .waited_ratio = 0.25, .predicted_seconds = 5}, start);
  // Without a prediction.
  metrics.RecordJobStep("grpo", {.measured_seconds = 6, .waited_ratio = 0}, start);
  metrics.RecordPlan({.job_id = "sft"}, start);
  std::string text = Text(metrics);
  for (const char* line : {"batchplan_job_measured_step_seconds_sum{job_id=\"grpo\"} 12\n",
                           "batchplan_job_measured_step_seconds_count{job_id=\"grpo\"} 3\n",
                           "batchplan_job_predicted_step_seconds_sum{job_id=\"grpo\"} 6\n",
                           "batchplan_job_predicted_step_seconds_count{job_id=\"grpo\"} 2\n",
                           "batchplan_job_prediction_error_ratio_sum{job_id=\"grpo\"} 0.75\n",
                           "batchplan_job_prediction_error_ratio_count{job_id=\"grpo\"} 2\n",
                           "batchplan_job_waited_ratio_sum{job_id=\"grpo\"} 0.5\n",
                           "batchplan_job_waited_ratio_count{job_id=\"grpo\"} 3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("step_seconds_count{job_id=\"sft\"}")));

  metrics.RecordJobStep("dpo", {.measured_seconds = 1}, start + absl::Hours(2));
  text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("batchplan_job_measured_step_seconds_sum{job_id=\"dpo\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("grpo")));
}

// The value behind `name` in its line.
double ValueOf(const std::string& text, const std::string& name) {
  const size_t begin = text.find(name) + name.size();
  double value = 0;
  EXPECT_TRUE(absl::SimpleAtod(text.substr(begin, text.find('\n', begin) - begin), &value)) << name;
  return value;
}

TEST(MetricsTest, TheProcessIsMeasured) {
  const Metrics metrics("1");
  const std::string text = Text(metrics);
  for (const char* name :
       {"\nprocess_cpu_seconds_total ", "\nprocess_resident_memory_bytes ",
        "\nprocess_virtual_memory_bytes ", "\nprocess_open_fds ", "\nprocess_max_fds ",
        "\nprocess_threads ", "\nprocess_start_time_seconds "}) {
    ASSERT_THAT(text, HasSubstr(name));
    const double value = ValueOf(text, name);
    // The clock may not have ticked yet.
    EXPECT_TRUE(value > 0 || std::string(name) == "\nprocess_cpu_seconds_total ") << name;
  }
  const double start = ValueOf(text, "\nprocess_start_time_seconds ");
  EXPECT_NEAR(start, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()), 3600);
}

// The most series there can be: all their names are in the catalog, and all names of the catalog
// occur.
TEST(MetricsTest, TheCatalogIsWhatIsExported) {
  Metrics metrics("1");
  PassRecord pass{.on_pipelines = true};
  pass.groups.fill({.groups = 1, .tokens = 1});
  pass.metrics.loads = {{.load = "patches"}};
  pass.load_limit_use = 1;
  metrics.RecordPlan({.job_id = "grpo", .passes = {&pass, 1}, .waiting = {.mean_age = 1}},
                     absl::UnixEpoch());
  FitRecord fit;
  fit.seconds_exchanged_per_token.fill(1);
  fit.seconds_per_load_unit = {{"patches", 1}};
  metrics.RecordJobFit("grpo", fit, absl::UnixEpoch());
  metrics.RecordJobStep("grpo", {.measured_seconds = 1}, absl::UnixEpoch());
  metrics.SetCertificateExpiry(absl::UnixEpoch());
  std::map<std::string, const MetricDefinition*> catalog;
  for (const MetricDefinition* definition : MetricCatalog()) {
    EXPECT_TRUE(catalog.emplace(definition->name, definition).second) << definition->name;
  }
  for (const prometheus::MetricFamily& family : metrics.collectable()->Collect()) {
    const auto found = catalog.find(family.name);
    ASSERT_NE(found, catalog.end()) << family.name;
    EXPECT_EQ(family.help, found->second->help);
    ASSERT_FALSE(family.metric.empty()) << family.name;
    std::vector<std::string> labels;
    for (const auto& label : family.metric.front().label) labels.push_back(label.name);
    const std::vector<std::string> wanted =
        absl::StrSplit(found->second->labels, ", ", absl::SkipEmpty());
    EXPECT_THAT(labels, ::testing::UnorderedElementsAreArray(wanted)) << family.name;
    catalog.erase(found);
  }
  EXPECT_THAT(catalog, ::testing::IsEmpty());
}

TEST(MetricsTest, JobsHaveSeriesOfTheirOwnWithinTheLimit) {
  Metrics metrics("1", {.max_labels = 2});
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  metrics.RecordPlan({.job_id = "grpo", .sequences = 100}, start);
  metrics.RecordPlan({.job_id = "grpo", .sequences = 50}, start);
  metrics.RecordJobError("sft", start);
  for (int i = 0; i < 100; ++i) {
    const std::string job = "job-" + std::to_string(i);
    metrics.RecordPlan({.job_id = job, .sequences = 1}, start);
  }
  metrics.RecordPlan({.job_id = "", .sequences = 7}, start);
  std::string text = Text(metrics);
  for (const char* line : {"batchplan_job_plans_total{job_id=\"grpo\"} 2\n",
                           "batchplan_job_sequences_total{job_id=\"grpo\"} 150\n",
                           "batchplan_job_errors_total{job_id=\"sft\"} 1\n",
                           "batchplan_job_plans_total{job_id=\"other\"} 100\n",
                           "batchplan_job_sequences_total{job_id=\"unset\"} 7\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("job-")));

  metrics.RecordPlan({.job_id = "dpo", .sequences = 9}, start + absl::Hours(1));
  text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("batchplan_job_sequences_total{job_id=\"dpo\"} 9\n"));
  EXPECT_THAT(text, Not(HasSubstr("grpo")));

  for (int i = 0; i < 10; ++i)
    metrics.RecordPlan({.job_id = "busy", .sequences = 1}, start + absl::Hours(1));
  text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("batchplan_job_plans_total{job_id=\"busy\"}"));
  EXPECT_THAT(text, Not(HasSubstr("sft")));
}

TEST(MetricsTest, JobsMayComeAndGoOnManyThreads) {
  Metrics metrics("1", {.max_labels = 3});
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&metrics, i] {
      for (int j = 0; j < 500; ++j) {
        // The other jobs change about every hour and a half.
        const std::string job = "job-" + std::to_string(3 * (j / 100) + i % 3);
        const absl::Time now = absl::UnixEpoch() + absl::Minutes(j);
        metrics.RecordPlan({.job_id = job, .sequences = 1}, now);
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
  // Including "other".
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
        const PassRecord pass = {.metrics = {.microbatches = 2}};
        metrics.RecordPlan({.preset = "verl", .passes = {&pass, 1}}, absl::UnixEpoch());
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
