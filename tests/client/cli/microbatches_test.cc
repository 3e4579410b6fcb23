#include "client/cli/output/microbatches.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batchplan/client.h"

namespace batchplan::cli {
namespace {

v1::PlanBatchRequest Request() {
  v1::PlanBatchRequest request;
  for (uint32_t i = 0; i < 60; ++i) request.mutable_manifest()->add_lengths(1 + i * 7919 % 400);
  request.set_preset("nemo_rl_packing");
  request.mutable_topology()->set_data_parallel(4);
  request.mutable_topology()->set_context_parallel(2);
  request.mutable_mini_batches()->set_size(20);
  request.mutable_cost_model()->set_per_token(1);
  request.mutable_cost_model()->set_per_token_squared(0.001);
  request.mutable_cost_model()->set_per_microbatch(7);
  request.mutable_cost_model()->set_per_sequence(20);
  v1::Pass* pass = request.add_passes();
  pass->set_max_tokens_per_microbatch(512);
  pass->mutable_packed()->set_rows(v1::ROW_PADDING_LONGEST);
  return request;
}

TEST(StepTime, AgreesWithThePlannersUnderBothSynchronizations) {
  const Client client(MakeInProcessConnection());
  for (const v1::Synchronization synchronization :
       {v1::SYNCHRONIZATION_LOCKSTEP, v1::SYNCHRONIZATION_ACCUMULATED}) {
    v1::PlanBatchRequest request = Request();
    request.set_synchronization(synchronization);
    const absl::StatusOr<v1::PlanBatchResponse> response = client.PlanBatch(request);
    ASSERT_TRUE(response.ok()) << response.status();
    const v1::PassPlan& plan = response->passes(0);
    EXPECT_EQ(plan.microbatches_per_rank_size(), 3);
    const auto microbatches = ListMicrobatches(plan, Layout::kPacked, 4);
    ASSERT_TRUE(microbatches.ok()) << microbatches.status();
    const StepTimes times =
        PredictStepTimes(*microbatches, plan, Layout::kPacked, 4, response->cost_model_used());
    const double predicted = plan.metrics().predicted_step_time();
    EXPECT_NEAR(
        synchronization == v1::SYNCHRONIZATION_LOCKSTEP ? times.lockstep : times.accumulated,
        predicted, 1e-9 * predicted);
    EXPECT_GE(times.lockstep, times.accumulated);
  }
}

// Two ranks of two slots: [5, 3 | 4] and [2 | 1], lengths in multiples of 4.
v1::PassPlan SmallPlan() {
  v1::PassPlan plan;
  for (const uint32_t index : {0, 1, 2, 3, 4}) plan.add_sequence_index(index);
  for (const uint32_t length : {5, 3, 4, 2, 1}) plan.add_sequence_lengths(length);
  for (const uint32_t offset : {0, 2, 3, 4, 5}) plan.add_microbatch_offsets(offset);
  for (const uint32_t width : {8, 4, 4, 8}) plan.add_row_widths(width);
  plan.add_microbatches_per_rank(2);
  plan.set_length_multiple(4);
  return plan;
}

StepTimes TimesOfSmallPlan(const v1::PassPlan& plan, Layout layout) {
  v1::CostModel cost;
  cost.set_per_token(1);
  cost.set_per_token_squared(0.5);
  cost.set_per_microbatch(10);
  return PredictStepTimes(*ListMicrobatches(plan, layout, 2), plan, layout, 2, cost);
}

TEST(StepTime, PaddedSequencesCostAsMuchAsTheirRowIsWide) {
  // 2 x (8 + 32) + 10 | 4 + 8 + 10 on rank 0, 4 + 8 + 10 | 8 + 32 + 10 on rank 1.
  const StepTimes times = TimesOfSmallPlan(SmallPlan(), Layout::kPadded);
  EXPECT_DOUBLE_EQ(times.lockstep, 90 + 50);
  EXPECT_DOUBLE_EQ(times.accumulated, 90 + 22);
}

TEST(StepTime, PackedTailsCostPerTokenAlone) {
  v1::PassPlan plan = SmallPlan();
  plan.set_row_widths(0, 12);
  // 8 + 32 + 4 + 8 + 10 | 4 + 8 + 10 on rank 0, 4 + 8 + 10 | 4 + 8 + 4 + 10 on rank 1.
  const StepTimes times = TimesOfSmallPlan(plan, Layout::kPacked);
  EXPECT_DOUBLE_EQ(times.lockstep, 62 + 26);
  EXPECT_DOUBLE_EQ(times.accumulated, 62 + 22);
}

TEST(StepTime, EmptyMicrobatchesHaveTheFixedCost) {
  v1::PassPlan plan;
  plan.add_sequence_index(0);
  plan.add_sequence_lengths(4);
  for (const uint32_t offset : {0, 1, 1}) plan.add_microbatch_offsets(offset);
  for (const uint32_t width : {4, 0}) plan.add_row_widths(width);
  plan.add_microbatches_per_rank(2);
  plan.set_length_multiple(4);
  v1::CostModel model;
  model.set_per_token(1);
  model.set_per_microbatch(10);
  const auto microbatches = ListMicrobatches(plan, Layout::kPacked, 1);
  ASSERT_TRUE(microbatches.ok()) << microbatches.status();
  EXPECT_DOUBLE_EQ(PredictStepTimes(*microbatches, plan, Layout::kPacked, 1, model).lockstep, 24);
}

TEST(Microbatches, ArraysThatDoNotFitAreRefused) {
  const auto refused = [](const v1::PassPlan& plan, uint32_t ranks) {
    return absl::IsInvalidArgument(ListMicrobatches(plan, Layout::kPacked, ranks).status());
  };
  EXPECT_FALSE(refused(SmallPlan(), 2));
  EXPECT_TRUE(refused(SmallPlan(), 3));
  EXPECT_TRUE(refused(v1::PassPlan(), 2));
  v1::PassPlan plan = SmallPlan();
  plan.set_microbatch_offsets(1, 4);
  EXPECT_TRUE(refused(plan, 2));
  plan = SmallPlan();
  plan.set_microbatch_offsets(4, 6);
  EXPECT_TRUE(refused(plan, 2));
  plan = SmallPlan();
  plan.add_sequence_lengths(1);
  EXPECT_TRUE(refused(plan, 2));
  plan = SmallPlan();
  plan.mutable_row_widths()->RemoveLast();
  EXPECT_TRUE(refused(plan, 2));
}

}  // namespace
}  // namespace batchplan::cli
