#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/batchplan/v1/convert.h"
#include "server/planner/make_plan.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;

v1::PlanBatchResponse SmallResponse() {
  PlanOptions options;
  options.overlong = OverlongPolicy::kTruncate;
  PassOptions& pass = options.passes.emplace_back();
  pass.name = "train";
  pass.max_tokens_per_microbatch = 10;
  pass.packer = Packer::kFirstFitDecreasing;
  pass.sharding = Sharding::kDealBins;
  const std::vector<uint32_t> lengths = {7, 12, 3};
  v1::PlanBatchResponse response;
  FillResponse(MakePlan({.lengths = lengths}, options).value(), absl::Milliseconds(1500),
               &response);
  return response;
}

TEST(ConvertResponseTest, CarriesThePlan) {
  const v1::PlanBatchResponse response = SmallResponse();
  ASSERT_EQ(response.passes_size(), 1);
  const v1::PassPlan& pass = response.passes(0);
  EXPECT_EQ(pass.name(), "train");
  EXPECT_THAT(pass.sequence_index(), ElementsAre(1, 0, 2));
  EXPECT_THAT(pass.sequence_lengths(), ElementsAre(10, 7, 3));
  EXPECT_THAT(pass.microbatch_offsets(), ElementsAre(0, 1, 3));
  EXPECT_THAT(pass.microbatches_per_rank(), ElementsAre(2));
  EXPECT_THAT(pass.row_widths(), ElementsAre(10, 10));
  EXPECT_EQ(pass.metrics().bin_utilization(), 1);
  ASSERT_EQ(pass.decisions_size(), 1);
  EXPECT_EQ(pass.decisions(0).method(), "deal_bins");
  EXPECT_EQ(pass.decisions(0).fewest_slots(), 2);
  ASSERT_EQ(pass.decisions(0).tried_size(), 1);
  EXPECT_EQ(pass.decisions(0).tried(0).slots(), 2);
  EXPECT_EQ(pass.decisions(0).tried(0).step_time(), pass.metrics().predicted_step_time());
  ASSERT_EQ(response.excluded_size(), 1);
  EXPECT_EQ(response.excluded(0).length(), 12);
  EXPECT_EQ(response.excluded(0).reason(), v1::EXCLUSION_REASON_TRUNCATED);
  EXPECT_EQ(response.fingerprint().size(), 64);
  EXPECT_EQ(response.planner_version(), std::string(PlannerVersion()));
  EXPECT_EQ(response.planning_time().seconds(), 1);
  EXPECT_EQ(response.planning_time().nanos(), 500000000);
  EXPECT_EQ(response.cost_model_used().per_token(), 1);
}

TEST(ConvertResponseTest, SaysWhatAMicrobatchCostsByDefaultOnAPipelineAndItsBubble) {
  v1::PlanBatchRequest request;
  for (const uint32_t length : {7, 5, 3}) request.mutable_manifest()->add_lengths(length);
  request.mutable_topology()->set_pipeline_parallel(2);
  request.add_passes()->set_max_tokens_per_microbatch(10);
  const ParsedRequest parsed = ParseRequest(request).value();
  v1::PlanBatchResponse response;
  FillResponse(MakePlan(parsed.manifest, parsed.options).value(), absl::Seconds(1), &response);
  EXPECT_EQ(response.cost_model_used().per_microbatch(), 1024);
  EXPECT_GT(response.passes(0).metrics().pipeline_bubble(), 0);
  EXPECT_EQ(ParseResponse(response)->passes[0].metrics.pipeline_bubble,
            response.passes(0).metrics().pipeline_bubble());
}

// Omitted fields and explicit defaults give the same plan and fingerprint.
TEST(ConvertResponseTest, APipelineThatSaysItsDefaultsHasTheSameFingerprint) {
  v1::PlanBatchRequest request;
  for (uint32_t i = 0; i < 40; ++i) request.mutable_manifest()->add_lengths(1 + i * 7919 % 100);
  request.mutable_topology()->set_data_parallel(2);
  request.mutable_topology()->set_pipeline_parallel(2);
  request.add_passes()->set_max_tokens_per_microbatch(200);
  const auto fingerprint = [&] {
    const ParsedRequest parsed = ParseRequest(request).value();
    return MakePlan(parsed.manifest, parsed.options).value().fingerprint;
  };
  const std::string unset = fingerprint();
  request.mutable_pipeline();
  EXPECT_EQ(fingerprint(), unset);
  request.mutable_pipeline()->set_schedule(v1::PIPELINE_SCHEDULE_ONE_F_ONE_B);
  request.mutable_pipeline()->set_backward_ratio(2);
  for (const double share : {3, 3}) request.mutable_pipeline()->add_stage_shares(share);
  request.set_synchronization(v1::SYNCHRONIZATION_ACCUMULATED);
  EXPECT_EQ(fingerprint(), unset);
}

TEST(ConvertResponseTest, SaysWhatRanksExchange) {
  v1::PlanBatchRequest request;
  request.mutable_manifest()->add_lengths(7);
  request.add_passes()->set_max_tokens_per_microbatch(10);
  request.mutable_cost_model()->set_per_token(1);
  v1::Exchange* exchange = request.mutable_cost_model()->add_exchange();
  exchange->set_up_to_size(8);
  exchange->set_per_token(0.02);
  request.mutable_cost_model()->set_exchange_overlaps(true);
  const ParsedRequest parsed = ParseRequest(request).value();
  v1::PlanBatchResponse response;
  FillResponse(MakePlan(parsed.manifest, parsed.options).value(), absl::Seconds(1), &response);
  EXPECT_EQ(response.cost_model_used().SerializeAsString(),
            request.cost_model().SerializeAsString());
  const CostModel read = ParseResponse(response)->cost_model_used;
  ASSERT_EQ(read.exchange.size(), 1u);
  EXPECT_EQ(read.exchange[0].up_to_size, 8u);
  EXPECT_EQ(read.exchange[0].per_token, 0.02);
  EXPECT_TRUE(read.exchange_overlaps);
}

TEST(ConvertResponseTest, ReadBackIsTheSamePlan) {
  const v1::PlanBatchResponse response = SmallResponse();
  v1::PlanBatchResponse again;
  FillResponse(ParseResponse(response).value(), absl::Milliseconds(1500), &again);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(response, again));
}

TEST(ConvertResponseTest, ASequenceThatRunsAloneIsReadBack) {
  v1::PlanBatchResponse response = SmallResponse();
  response.mutable_excluded(0)->set_reason(v1::EXCLUSION_REASON_ALONE);
  EXPECT_EQ(ParseResponse(response)->excluded[0].reason, ExclusionReason::kAlone);
}

TEST(ConvertResponseTest, AnUnknownReasonIsRefused) {
  v1::PlanBatchResponse response = SmallResponse();
  response.mutable_excluded(0)->set_reason(static_cast<v1::ExclusionReason>(9));
  EXPECT_EQ(ParseResponse(response).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace batchplan
