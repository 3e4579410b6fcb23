#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/checked_plan.h"

namespace batchplan {
namespace {

using testing::MakeCheckedPlan;
using testing::PackedOptions;

TEST(MetricsTest, PackingMetricsFollowTheirDefinitions) {
  const PlanMetrics metrics =
      MakeCheckedPlan({6, 5, 4, 3}, PackedOptions(10, Packer::kConcatenative))->passes[0].metrics;
  // Rows [6], [5, 4], [3].
  EXPECT_EQ(metrics.microbatches, 3);
  EXPECT_EQ(metrics.lower_bound_microbatches, 2);
  EXPECT_FALSE(metrics.certified_optimal);
  EXPECT_DOUBLE_EQ(metrics.bin_utilization, 18.0 / 30);
  EXPECT_DOUBLE_EQ(metrics.waste_ratio, 12.0 / 30);
  EXPECT_DOUBLE_EQ(metrics.packing_efficiency, 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.bin_balance, 1 - std::sqrt((0 + 9 + 9) / 2.0) / 6);
  EXPECT_DOUBLE_EQ(metrics.padding_removed, 1 - 18.0 / 24);
}

TEST(MetricsTest, ASingleBinIsPerfectlyBalanced) {
  EXPECT_EQ(MakeCheckedPlan({5}, PackedOptions(10, Packer::kConcatenative))
                ->passes[0]
                .metrics.bin_balance,
            1);
}

TEST(MetricsTest, UtilizationIsOfTrueTokensAndTheAlignedOneApart) {
  PlanOptions options = PackedOptions(16, Packer::kFirstFitDecreasing);
  options.passes[0].length_multiple = 8;
  const PlanMetrics metrics = MakeCheckedPlan({5, 7}, options)->passes[0].metrics;
  EXPECT_DOUBLE_EQ(metrics.bin_utilization, 12.0 / 16);
  EXPECT_DOUBLE_EQ(metrics.aligned_bin_utilization, 1);
  EXPECT_EQ(metrics.aligned_tokens, 16);
}

TEST(MetricsTest, NaiveTokensTakePadToWhereItIsGiven) {
  const std::vector<uint32_t> lengths = {6, 5, 4, 3};
  const PlanOptions options = PackedOptions(10, Packer::kFirstFitDecreasing);
  EXPECT_EQ(
      MakeCheckedPlan({.lengths = lengths, .pad_to = 8}, options)->passes[0].metrics.naive_tokens,
      32);
}

TEST(MetricsTest, LockstepWaitsAtEverySlotAndAccumulatedOnce) {
  // Order preserved, two ranks of two micro-batches: [6], [3] and [5], [8].
  PlanOptions options = PackedOptions(8, Packer::kConcatenative, 2, Sharding::kContiguous);
  options.cost_model = {.per_token = 1, .per_token_squared = 0};
  options.passes[0].sequence_counts = EqualCounts::kExact;
  const std::vector<uint32_t> lengths = {6, 3, 5, 8};
  const PlanMetrics lockstep = MakeCheckedPlan(lengths, options)->passes[0].metrics;
  EXPECT_DOUBLE_EQ(lockstep.predicted_step_time, 6 + 8);
  EXPECT_DOUBLE_EQ(lockstep.ideal_step_time, 11);
  EXPECT_DOUBLE_EQ(lockstep.step_efficiency, 11.0 / 14);
  EXPECT_DOUBLE_EQ(lockstep.rank_token_imbalance, 13.0 / 11);
  options.synchronization = Synchronization::kAccumulated;
  const PlanMetrics accumulated = MakeCheckedPlan(lengths, options)->passes[0].metrics;
  EXPECT_DOUBLE_EQ(accumulated.predicted_step_time, 13);
  EXPECT_DOUBLE_EQ(accumulated.lower_bound_step_time, 11);
}

TEST(MetricsTest, ALongSequenceBoundsTheStep) {
  PlanOptions options = PackedOptions(100, Packer::kFirstFitDecreasing, 2);
  options.cost_model = {.per_token = 1, .per_token_squared = 0, .per_microbatch = 10};
  const PlanMetrics metrics = MakeCheckedPlan({90, 2}, options)->passes[0].metrics;
  EXPECT_NEAR(metrics.lower_bound_step_time, 100, 1e-9);
  EXPECT_NEAR(metrics.predicted_step_time, 100, 1e-9);
  EXPECT_NEAR(metrics.ideal_step_time, (92 + 20) / 2.0, 1e-9);
}

TEST(MetricsTest, TheStepTimeBoundFollowsTheSynchronization) {
  // One of 100 squared, forty of 10 squared. In lockstep, nothing in the micro-batch beside the
  // long one can last as long.
  std::vector<uint32_t> lengths(40, 10);
  lengths.push_back(100);
  PlanOptions options = PackedOptions(100, Packer::kFirstFitDecreasing, 2);
  options.cost_model = {.per_token = 0, .per_token_squared = 1};
  EXPECT_NEAR(MakeCheckedPlan(lengths, options)->passes[0].metrics.lower_bound_step_time,
              10000 + 1500, 1e-9);
  // Five micro-batches are needed, so each rank has three, none of them empty.
  options.synchronization = Synchronization::kAccumulated;
  EXPECT_NEAR(MakeCheckedPlan(lengths, options)->passes[0].metrics.lower_bound_step_time,
              10000 + 2 * 100, 1e-9);
  options.allow_empty_microbatches = true;
  EXPECT_NEAR(MakeCheckedPlan(lengths, options)->passes[0].metrics.lower_bound_step_time, 10000,
              1e-9);
}

// The first pass decides how ranks share a mini-batch, so another pass's counts prove nothing.
TEST(MetricsTest, EqualCountsOfALaterPassBoundNoStep) {
  std::vector<uint32_t> lengths(10, 100);
  lengths.push_back(1000);
  PlanOptions options = PackedOptions(1000, Packer::kBalanced, 2, Sharding::kBalanced);
  options.cost_model = {.per_token = 1, .per_token_squared = 0};
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "later";
  options.passes[1].sequence_counts = EqualCounts::kExact;
  const Plan plan = MakeCheckedPlan(lengths, options).value();
  for (const PassPlan& pass : plan.passes) {
    EXPECT_NEAR(pass.metrics.lower_bound_step_time, 1000, 1e-9) << pass.name;
    EXPECT_NEAR(pass.metrics.predicted_step_time, 1000, 1e-9) << pass.name;
  }
}

TEST(MetricsTest, AGroupThatStaysOnARankBoundsTheStep) {
  const std::vector<uint32_t> lengths = {10, 10, 10, 1};
  const std::vector<uint32_t> group_ids = {1, 1, 1, 2};
  PlanOptions options = PackedOptions(10, Packer::kFirstFitDecreasing, 2, Sharding::kLpt);
  options.cost_model = {.per_token = 1, .per_token_squared = 0, .per_microbatch = 100};
  options.allow_empty_microbatches = true;
  options.mini_batches.groups = GroupPolicy::kSameRank;
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    options.synchronization = synchronization;
    const PlanMetrics metrics =
        MakeCheckedPlan({.lengths = lengths, .group_ids = group_ids}, options)->passes[0].metrics;
    // The fewest micro-batches of the tokens alone: four, two on a rank.
    EXPECT_NEAR(metrics.lower_bound_step_time, 30 + 2 * 100, 1e-9);
    EXPECT_NEAR(metrics.predicted_step_time, 30 + 3 * 100, 1e-9);
  }
}

TEST(MetricsTest, ASequenceCostsItsShareWhateverItsLengthAndWidth) {
  PlanOptions options = PackedOptions(100, Packer::kFirstFitDecreasing);
  options.cost_model = {
      .per_token = 0, .per_token_squared = 0, .per_microbatch = 10, .per_sequence = 3};
  options.overlong = OverlongPolicy::kDrop;
  // Two micro-batches of 90 and of 40 + 30 + 20 tokens.
  const PlanMetrics packed = MakeCheckedPlan({40, 90, 30, 101, 20}, options)->passes[0].metrics;
  EXPECT_NEAR(packed.predicted_step_time, 4 * 3 + 2 * 10, 1e-9);
  EXPECT_NEAR(packed.ideal_step_time, 4 * 3 + 2 * 10, 1e-9);
  EXPECT_NEAR(packed.lower_bound_step_time, 4 * 3 + 2 * 10, 1e-9);
  options.passes[0].layout = Layout::kPadded;
  options.passes[0].sharding = Sharding::kBalanced;
  const PlanMetrics padded = MakeCheckedPlan({40, 90, 30, 101, 20}, options)->passes[0].metrics;
  EXPECT_NEAR(padded.predicted_step_time, 4 * 3 + 10.0 * padded.microbatches, 1e-9);
}

TEST(MetricsTest, WhatRanksExchangeIsPredictedAndNotIdeal) {
  PlanOptions options = PackedOptions(120, Packer::kFirstFitDecreasing);
  options.topology.context_parallel = 4;
  options.cost_model = {.per_token = 1,
                        .per_token_squared = 0.1,
                        .per_microbatch = 10,
                        .exchange = {{.up_to_size = 2, .per_token = 100}, {.per_token = 2}}};
  // A quarter of 40 + 160 and of 80 + 640; the exchange is three quarters of 2 * 40 and of 2 * 80.
  const PlanMetrics packed = MakeCheckedPlan({40, 80}, options)->passes[0].metrics;
  EXPECT_NEAR(packed.ideal_step_time, 50 + 180 + 10, 1e-9);
  EXPECT_NEAR(packed.predicted_step_time, 50 + 180 + 60 + 120 + 10, 1e-9);
  EXPECT_NEAR(packed.lower_bound_step_time, 50 + 180 + 60 + 120 + 10, 1e-9);
  // Attention lasts 40 and 160, so that the first sequence still waits for 20.
  options.cost_model.exchange_overlaps = true;
  const PlanMetrics hidden = MakeCheckedPlan({40, 80}, options)->passes[0].metrics;
  EXPECT_NEAR(hidden.predicted_step_time, 50 + 180 + 20 + 10, 1e-9);
  options.passes[0].layout = Layout::kPadded;
  options.passes[0].sharding = Sharding::kBalanced;
  options.passes[0].max_tokens_per_microbatch = 160;
  options.cost_model.exchange_overlaps = false;
  options.cost_model.per_microbatch = 1000;
  // Both are padded to 80, and padding is exchanged too.
  const PlanMetrics padded = MakeCheckedPlan({72, 80}, options)->passes[0].metrics;
  EXPECT_NEAR(padded.predicted_step_time, 2 * (180 + 120) + 1000, 1e-9);
}

TEST(MetricsTest, TailPaddingIsNotExchanged) {
  PlanOptions options = PackedOptions(100, Packer::kFirstFitDecreasing);
  options.topology.context_parallel = 2;
  options.cost_model = {.per_token = 1, .per_token_squared = 0, .exchange = {{.per_token = 2}}};
  options.passes[0].rows = RowPadding::kCapacity;
  const PlanMetrics metrics = MakeCheckedPlan({40}, options)->passes[0].metrics;
  EXPECT_NEAR(metrics.predicted_step_time, (40 + 60) / 2 + 40, 1e-9);
}

TEST(MetricsTest, TailPaddingIsNotFree) {
  PlanOptions options = PackedOptions(100, Packer::kFirstFitDecreasing);
  options.cost_model = {.per_token = 1, .per_token_squared = 0};
  options.passes[0].rows = RowPadding::kCapacity;
  const PlanMetrics metrics = MakeCheckedPlan({40}, options)->passes[0].metrics;
  EXPECT_EQ(metrics.scheduled_tokens, 100);
  EXPECT_NEAR(metrics.predicted_step_time, 100, 1e-9);
}

// Waiting for transfers lasts far longer than computing.
TEST(MetricsTest, BoundsOfManyMiniBatchesOnPipelinesAddUp) {
  PlanOptions options = PackedOptions(100, Packer::kBalanced, 1, Sharding::kBalanced);
  options.topology.pipeline_parallel = 2;
  options.mini_batches.size = 1;
  options.pipeline.transfer = 1e9;
  const std::vector<uint32_t> lengths(64, 50);
  const auto plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // There and back, once for each mini-batch.
  EXPECT_GE(plan->passes[0].metrics.lower_bound_step_time, 64 * 2 * 1e9);
  EXPECT_GE(plan->passes[0].metrics.pipeline_bubble, 0.99);

  options.pipeline.transfer = 1e100;
  const absl::Status refused = MakeCheckedPlan(lengths, options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("pipeline.transfer"), std::string::npos) << refused;
}

}  // namespace
}  // namespace batchplan
