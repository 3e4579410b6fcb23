#include "server/service/planning/plan_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <string>

#include "proto/batchplan/v1/convert.h"
#include "server/planner/make_plan.h"
#include "tests/server/service/requests.h"
#include "tests/support/captured_log.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class PlanBatchTest : public ::testing::Test {
 protected:
  PlanBatchTest() {
    config_.observers.metrics = &metrics_;
    config_.max_message_bytes = 1 << 20;
    config_.verify_plans = true;
    config_.plan = [this](const Manifest& manifest, const PlanOptions& options,
                          const std::stop_token& stop) {
      ++calls_;
      return MakePlan(manifest, options, stop);
    };
  }

  std::string MetricsText() const {
    return prometheus::TextSerializer().Serialize(metrics_.collectable()->Collect());
  }

  // Like a call, which counts its answer.
  absl::Status PlanAndCount(const Caller& caller = {}) {
    v1::PlanBatchRequest request = ValidRequest();
    return PlanOrRecall(config_, &request, caller).status();
  }

  Metrics metrics_{"1"};
  PlanBatchConfig config_;
  int calls_ = 0;
  v1::PlanBatchResponse response_;
};

TEST_F(PlanBatchTest, TheResponseCarriesThePlan) {
  const v1::PlanBatchRequest request = ValidRequest();
  const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const absl::StatusOr<Plan> plan = MakePlan(parsed->manifest, parsed->options);
  ASSERT_TRUE(plan.ok()) << plan.status();

  const absl::Status status = PlanBatch(config_, request, {}, &response_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(response_.fingerprint(), plan->fingerprint);
  EXPECT_EQ(response_.planner_version(), std::string(PlannerVersion()));
  EXPECT_TRUE(response_.has_planning_time());
}

TEST_F(PlanBatchTest, APlanIsRecorded) {
  ASSERT_TRUE(PlanBatch(config_, ValidRequest(), {}, &response_).ok());
  EXPECT_THAT(MetricsText(), HasSubstr("batchplan_microbatches_total 0\n"));
  ASSERT_TRUE(PlanAndCount().ok());
  const v1::PlanMetrics& pass = response_.passes(0).metrics();
  const std::string text = MetricsText();
  EXPECT_THAT(text, HasSubstr("batchplan_plans_total{preset=\"nemo_rl_packing\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_sequences_per_plan_sum 256\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_microbatches_total " +
                              std::to_string(pass.microbatches()) + "\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_true_tokens_total " + std::to_string(pass.true_tokens())));
  EXPECT_THAT(text,
              HasSubstr("batchplan_naive_tokens_total " + std::to_string(pass.naive_tokens())));
  EXPECT_THAT(text, HasSubstr("batchplan_budget_tokens_total " +
                              std::to_string(uint64_t{pass.microbatches()} *
                                             ValidRequest().passes(0).max_tokens_per_microbatch()) +
                              "\n"));
  EXPECT_THAT(text, HasSubstr("batchplan_bin_utilization_count 1\n"));
}

TEST_F(PlanBatchTest, ASequenceAboveTheBudgetIsRecordedAsItsOwn) {
  v1::PlanBatchRequest request = ValidRequest();
  const uint32_t budget = request.passes(0).max_tokens_per_microbatch();
  request.set_overlong(v1::OVERLONG_POLICY_ALONE);
  request.mutable_manifest()->set_lengths(0, budget + 100);
  const absl::Status status = PlanBatch(config_, request, {}, &response_);
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<PassRecord> passes = RecordPasses(request, response_);
  EXPECT_EQ(passes[0].budget_tokens, uint64_t{passes[0].metrics.microbatches} * budget + 100);
}

TEST_F(PlanBatchTest, ABubbleIsRecordedOfPipelinesAlone) {
  v1::PlanBatchRequest request = ValidRequest();
  ASSERT_TRUE(PlanBatch(config_, request, {}, &response_).ok());
  EXPECT_FALSE(RecordPasses(request, response_)[0].on_pipelines);
  request.mutable_topology()->set_pipeline_parallel(2);
  response_.Clear();
  const absl::Status status = PlanBatch(config_, request, {}, &response_);
  ASSERT_TRUE(status.ok()) << status;
  const PassRecord pass = RecordPasses(request, response_)[0];
  EXPECT_TRUE(pass.on_pipelines);
  EXPECT_GT(pass.pipeline_bubble(), 0);
  EXPECT_EQ(pass.pipeline_bubble(), response_.passes(0).metrics().pipeline_bubble());
}

TEST_F(PlanBatchTest, WhatWaitsIsRecorded) {
  v1::PlanBatchRequest request = ValidRequest();
  const int sequences = request.manifest().lengths_size();
  for (int i = 0; i < sequences; ++i) request.mutable_manifest()->add_ages(i == 0 ? 3 : 1);
  request.mutable_selection()->set_sequences(static_cast<uint32_t>(sequences) - 3);
  request.mutable_selection()->set_max_age(2);
  const absl::Status status = PlanBatch(config_, request, {}, &response_);
  ASSERT_TRUE(status.ok()) << status;
  const WaitingRecord waiting = RecordWaiting(request, response_);
  EXPECT_EQ(waiting.deferred, 2u);
  EXPECT_EQ(waiting.expired, 1u);
  EXPECT_EQ(waiting.mean_age, 1);
}

TEST_F(PlanBatchTest, GroupsThatDifferInSizeAreRecordedBySize) {
  v1::PlanBatchRequest request = ValidRequest();
  request.clear_preset();
  request.mutable_topology()->set_data_parallel(4);
  request.mutable_topology()->set_context_parallel(2);
  request.mutable_topology()->mutable_dynamic_context();
  const uint32_t budget = request.passes(0).max_tokens_per_microbatch();
  request.mutable_manifest()->set_lengths(0, 4 * budget);
  const absl::Status status = PlanBatch(config_, request, {}, &response_);
  ASSERT_TRUE(status.ok()) << status;
  const v1::PassPlan& plan = response_.passes(0);
  const PassRecord pass = RecordPasses(request, response_)[0];
  EXPECT_EQ(pass.groups[ContextSizePlace(1)].groups,
            static_cast<uint64_t>(std::ranges::count(plan.context_sizes(), 1)));
  EXPECT_GT(pass.groups[ContextSizePlace(8)].groups, 0);
  uint64_t groups = 0;
  uint64_t tokens = 0;
  for (const GroupsRecord& size : pass.groups) {
    groups += size.groups;
    tokens += size.tokens;
  }
  EXPECT_EQ(groups, plan.metrics().microbatches());
  EXPECT_EQ(tokens, plan.metrics().scheduled_tokens());
  EXPECT_DOUBLE_EQ(
      static_cast<double>(pass.metrics.true_tokens) / static_cast<double>(pass.budget_tokens),
      plan.metrics().bin_utilization());
}

TEST_F(PlanBatchTest, APassedDeadlineIsNotPlanned) {
  const Caller caller{.deadline = Instant{}, .stop = {}};
  EXPECT_EQ(PlanBatch(config_, ValidRequest(), caller, &response_).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(calls_, 0);
}

TEST_F(PlanBatchTest, ACancelledCallIsNotPlanned) {
  std::stop_source stop;
  stop.request_stop();
  const Caller caller{.stop = stop.get_token()};
  EXPECT_EQ(PlanBatch(config_, ValidRequest(), caller, &response_).code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(calls_, 0);
}

TEST_F(PlanBatchTest, ACallCancelledWhilePlanningIsCancelledWhateverThePlannerSays) {
  std::stop_source stop;
  const PlanFunction plan = config_.plan;
  config_.plan = [&](const Manifest& manifest, const PlanOptions& options,
                     const std::stop_token& /*token*/) {
    absl::StatusOr<Plan> done = plan(manifest, options, {});
    stop.request_stop();
    return done;
  };
  EXPECT_EQ(PlanAndCount({.stop = stop.get_token()}).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(MetricsText(), HasSubstr("batchplan_microbatches_total 0\n"));
}

TEST_F(PlanBatchTest, AResponseOverTheLimitNamesSizeAndLimit) {
  config_.max_message_bytes = 100;
  v1::PlanBatchRequest request = ValidRequest();
  const absl::Status status = PlanOrRecall(config_, &request, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              MatchesRegex("the plan takes [0-9]+ bytes, more than the server's "
                           "max_message_bytes=100"));
}

class BrokenPlanTest : public PlanBatchTest {
 protected:
  BrokenPlanTest() {
    const PlanFunction plan = config_.plan;
    config_.plan = [plan](const Manifest& manifest, const PlanOptions& options,
                          const std::stop_token& stop) {
      absl::StatusOr<Plan> broken = plan(manifest, options, stop);
      // One sequence twice and another one missing.
      broken->passes[0].sequence_index[0] = broken->passes[0].sequence_index[1];
      return broken;
    };
  }
};

TEST_F(BrokenPlanTest, IsNotSentWhenPlansAreVerified) {
  CaptureLog();
  const absl::Status status = PlanAndCount();
  const std::string log = CapturedLog();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(log, HasSubstr("ERROR event=plan_check_failed request_id=r-1 job=test"));
  EXPECT_THAT(MetricsText(), HasSubstr("batchplan_plan_check_failures_total 1\n"));
  EXPECT_THAT(MetricsText(), HasSubstr("batchplan_microbatches_total 0\n"));
}

TEST_F(BrokenPlanTest, IsNotNoticedOtherwise) {
  config_.verify_plans = false;
  EXPECT_TRUE(PlanBatch(config_, ValidRequest(), {}, &response_).ok());
}

}  // namespace
}  // namespace batchplan
