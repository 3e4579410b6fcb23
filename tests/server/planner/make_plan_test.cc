#include "server/planner/make_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support/checked_plan.h"

namespace batchplan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::LengthsOf;
using testing::MakeCheckedPlan;
using testing::MicrobatchesOf;
using testing::PackedOptions;
using ::testing::UnorderedElementsAre;

TEST(MakePlanTest, OneSequenceOnOneRankIsAPlan) {
  const Plan plan = *MakeCheckedPlan({7}, PackedOptions(7, Packer::kBestFitDecreasing));
  EXPECT_THAT(MicrobatchesOf(plan.passes[0]), ElementsAre(ElementsAre(0)));
  EXPECT_THAT(plan.passes[0].microbatches_per_rank, ElementsAre(1));
  EXPECT_EQ(plan.fingerprint.size(), 64);
}

TEST(MakePlanTest, DealtBinsAreAlikeWithinASlot) {
  // Four bins of 10, 9, 4 and 3 on two ranks: 10 runs beside 9, and 4 beside 3.
  PlanOptions options = PackedOptions(10, Packer::kConcatenative, 2);
  const PassPlan pass = MakeCheckedPlan({10, 4, 9, 3}, options)->passes[0];
  EXPECT_THAT(pass.microbatches_per_rank, ElementsAre(2));
  const auto bins = LengthsOf(pass);
  EXPECT_THAT((std::vector{bins[0], bins[2]}),
              UnorderedElementsAre(ElementsAre(10), ElementsAre(9)));
  // The rank with the 10 gets the 3.
  EXPECT_THAT(
      bins, UnorderedElementsAre(ElementsAre(10), ElementsAre(3), ElementsAre(9), ElementsAre(4)));
  EXPECT_EQ(pass.metrics.rank_token_imbalance, 1);
}

TEST(MakePlanTest, ContiguousShardsKeepTheOrderOfTheManifest) {
  const PassPlan pass = MakeCheckedPlan({1, 2, 3, 4, 5, 6}, PackedOptions(9, Packer::kConcatenative,
                                                                          2, Sharding::kContiguous))
                            ->passes[0];
  EXPECT_THAT(pass.sequence_index, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(MakePlanTest, EqualCountsGiveEveryRankItsShare) {
  PlanOptions options = PackedOptions(100, Packer::kFirstFitDecreasing, 2, Sharding::kContiguous);
  options.passes[0].equal_sequence_counts = true;
  const PassPlan pass = MakeCheckedPlan({90, 90, 90, 1, 1, 1}, options)->passes[0];
  // Rank 1 needs one micro-batch but has three like rank 0.
  EXPECT_THAT(pass.microbatches_per_rank, ElementsAre(3));
  EXPECT_THAT(LengthsOf(pass), Each(::testing::SizeIs(1)));
}

TEST(MakePlanTest, MiniBatchesStandOneAfterTheOther) {
  PlanOptions options = PackedOptions(10, Packer::kFirstFitDecreasing, 2);
  options.mini_batches.size = 4;
  const PassPlan pass = MakeCheckedPlan({5, 5, 5, 5, 9, 9, 9, 9}, options)->passes[0];
  EXPECT_THAT(pass.microbatches_per_rank, ElementsAre(1, 2));
  EXPECT_THAT((std::vector(pass.sequence_index.begin(), pass.sequence_index.begin() + 4)),
              UnorderedElementsAre(0, 1, 2, 3));
}

TEST(MakePlanTest, CountsAreMultiplesOfThePipelineWithVirtualStages) {
  PlanOptions options = PackedOptions(10, Packer::kFirstFitDecreasing, 2);
  options.topology.pipeline_parallel = 4;
  options.topology.virtual_pipeline = 2;
  options.passes[0].microbatch_count_multiple = 3;
  const std::vector<uint32_t> lengths(30, 2);
  EXPECT_THAT(MakeCheckedPlan(lengths, options)->passes[0].microbatches_per_rank, ElementsAre(12));
}

TEST(MakePlanTest, ASequenceLimitHolds) {
  PlanOptions options = PackedOptions(100, Packer::kModifiedFirstFitDecreasing);
  options.passes[0].max_sequences_per_microbatch = 2;
  const PassPlan pass = MakeCheckedPlan({51, 10, 10, 10, 10, 10}, options)->passes[0];
  EXPECT_EQ(pass.metrics.microbatches, 3);
  EXPECT_TRUE(pass.metrics.certified_optimal);
}

TEST(MakePlanTest, TruncatedSequencesStayAndAreListed) {
  PlanOptions options = PackedOptions(10, Packer::kFirstFitDecreasing);
  options.passes[0].length_multiple = 4;
  options.overlong = OverlongPolicy::kTruncate;
  const Plan plan = *MakeCheckedPlan({3, 25}, options);
  ASSERT_EQ(plan.excluded.size(), 1);
  EXPECT_EQ(plan.excluded[0].index, 1);
  EXPECT_EQ(plan.excluded[0].length, 25);
  EXPECT_EQ(plan.excluded[0].reason, ExclusionReason::kTruncated);
  EXPECT_THAT(LengthsOf(plan.passes[0]), ElementsAre(ElementsAre(8), ElementsAre(3)));
}

TEST(MakePlanTest, DroppedSequencesLeaveAndAreListed) {
  PlanOptions options = PackedOptions(10, Packer::kFirstFitDecreasing);
  options.overlong = OverlongPolicy::kDrop;
  const Plan plan = *MakeCheckedPlan({3, 25, 4}, options);
  ASSERT_EQ(plan.excluded.size(), 1);
  EXPECT_EQ(plan.excluded[0].reason, ExclusionReason::kDropped);
  EXPECT_THAT(plan.passes[0].sequence_index, UnorderedElementsAre(0, 2));
}

TEST(MakePlanTest, BucketsLimitWhatARowIsFilledTo) {
  PlanOptions options = PackedOptions(100, Packer::kFirstFitDecreasing);
  options.passes[0].rows = RowPadding::kBuckets;
  options.passes[0].buckets = {8, 16};
  const PassPlan pass = MakeCheckedPlan({6, 6, 6, 6, 6}, options)->passes[0];
  EXPECT_THAT(pass.row_widths, ElementsAre(16, 16, 8));
}

TEST(MakePlanTest, AStoppedSolveIsAnErrorAndNoPlan) {
  std::stop_source source;
  source.request_stop();
  const std::vector<uint32_t> lengths = {1, 2, 3};
  EXPECT_EQ(
      MakePlan({.lengths = lengths}, PackedOptions(10, Packer::kConcatenative), source.get_token())
          .status()
          .code(),
      absl::StatusCode::kCancelled);
}

TEST(MakePlanTest, AMillionSequencesPlanAndCheck) {
  std::vector<uint32_t> lengths(1'000'000);
  for (uint32_t i = 0; i < lengths.size(); ++i) lengths[i] = 16 + i * 2654435761u % 4000;
  PlanOptions options = PackedOptions(16384, Packer::kModifiedFirstFitDecreasing, 256);
  const auto plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(plan->passes[0].metrics.bin_utilization, 0.99);
}

}  // namespace
}  // namespace batchplan
