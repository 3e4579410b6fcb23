// Effects of requests on plans that neither the plan checker nor the oracle of small requests can
// judge: the quality of plans, their order, and the text of refusals.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/checked_plan.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using testing::LengthsOf;
using testing::MakeCheckedPlan;
using testing::MicrobatchesOf;
using testing::PackedOptions;
using ::testing::SizeIs;

Plan PlanOf(const std::vector<uint32_t>& lengths, const PlanOptions& options,
            const std::vector<uint32_t>& group_ids = {}) {
  const auto plan = MakeCheckedPlan({.lengths = lengths, .group_ids = group_ids}, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : Plan();
}

TEST(MakePlanTest, APassThatIgnoresMiniBatchesPacksAcrossThem) {
  PlanOptions options = PackedOptions(10, Packer::kFirstFitDecreasing, 2);
  options.mini_batches.size = 2;
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprob";
  options.passes[1].ignore_mini_batches = true;
  const Plan plan = PlanOf({4, 5, 5, 4}, options);
  EXPECT_THAT(plan.passes[0].microbatches_per_rank, ElementsAre(1, 1));
  EXPECT_THAT(plan.passes[1].microbatches_per_rank, ElementsAre(1));
}

TEST(MakePlanTest, EmptyMicrobatchesComeLastAndAreSpreadOverTheRanks) {
  PlanOptions options = PackedOptions(10, Packer::kFirstFitDecreasing, 4);
  options.passes[0].microbatch_count_multiple = 2;
  options.allow_empty_microbatches = true;
  const Plan plan = PlanOf({9, 8, 7, 6, 5}, options);
  const auto microbatches = MicrobatchesOf(plan.passes[0]);
  ASSERT_THAT(microbatches, SizeIs(8));
  size_t empty_ranks = 0;
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(microbatches[2 * rank], SizeIs(1));
    empty_ranks += microbatches[2 * rank + 1].empty();
  }
  EXPECT_EQ(empty_ranks, 3);
}

TEST(MakePlanTest, MicrobatchesAreEmptyOnlyWherePackingTighterDoesNotHelp) {
  PlanOptions options = PackedOptions(10, Packer::kConcatenative, 2);
  options.allow_empty_microbatches = true;
  // In order, three bins, and four for two ranks; but two are enough.
  EXPECT_THAT(PlanOf({4, 7, 6}, options).passes[0].microbatches_per_rank, ElementsAre(1));
}

TEST(MakePlanTest, NoRankHasEmptyMicrobatchesThatAnotherDivisionSpares) {
  // Longest first would give rank 0 only the 100, and three empty micro-batches.
  PlanOptions options = PackedOptions(100, Packer::kFirstFitDecreasing, 2, Sharding::kLpt);
  options.passes[0].min_microbatches = 4;
  options.allow_empty_microbatches = true;
  const PassPlan pass = PlanOf({100, 5, 5, 5, 5, 5, 5, 5}, options).passes[0];
  for (const auto& microbatch : MicrobatchesOf(pass)) EXPECT_THAT(microbatch, SizeIs(1));
}

TEST(MakePlanTest, AGroupThatFitsNoMicrobatchIsNamed) {
  PlanOptions options = PackedOptions(9, Packer::kFirstFitDecreasing);
  options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  const std::vector<uint32_t> lengths = {5, 3, 5};
  const std::vector<uint32_t> group_ids = {77, 2, 77};
  const auto plan = MakeCheckedPlan({.lengths = lengths, .group_ids = group_ids}, options);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("group 77 takes 10 tokens"));
}

// If the heaviest groups came first, a rank would get both groups of three, and would have no room
// for the last group of two.
TEST(MakePlanTest, EqualCountsAreFoundForGroupsOfSeveralSizes) {
  PlanOptions options = PackedOptions(100, Packer::kFirstFitDecreasing, 2, Sharding::kLpt);
  options.passes[0].sequence_counts = EqualCounts::kExact;
  options.mini_batches.groups = GroupPolicy::kSameRank;
  const Plan plan =
      PlanOf({9, 9, 9, 1, 1, 1, 4, 4, 4, 4, 4, 4}, options, {1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5});
  EXPECT_THAT(MicrobatchesOf(plan.passes[0]), ElementsAre(SizeIs(6), SizeIs(6)));
}

TEST(MakePlanTest, AnOptimalScanPadsLessThanASortedOne) {
  PlanOptions options = PackedOptions(12, Packer::kBalanced, 1, Sharding::kContiguous);
  options.passes[0].layout = Layout::kPadded;
  const std::vector<uint32_t> lengths = {1, 1, 4, 4, 5, 6};
  const PassPlan sorted = PlanOf(lengths, options).passes[0];
  options.passes[0].scan = Scan::kOptimal;
  const PassPlan optimal = PlanOf(lengths, options).passes[0];
  EXPECT_EQ(optimal.metrics.microbatches, sorted.metrics.microbatches);
  EXPECT_THAT(LengthsOf(optimal),
              ElementsAre(ElementsAre(1, 1), ElementsAre(4, 4), ElementsAre(5, 6)));
  EXPECT_THAT(sorted.metrics.scheduled_tokens, Gt(optimal.metrics.scheduled_tokens));
}

TEST(MakePlanTest, RanksOfTheSameWidthsKeepThemInAnyOrder) {
  // Groups of 1 | 2, 6 | 8 sequences; if each were ordered by itself, the ranks would disagree.
  std::vector<uint32_t> lengths = {10};
  std::vector<uint32_t> group_ids = {0};
  const auto add = [&](uint32_t group, size_t count, uint32_t length) {
    lengths.insert(lengths.end(), count, length);
    group_ids.insert(group_ids.end(), count, group);
  };
  add(1, 6, 2);
  add(2, 8, 5);
  add(3, 2, 21);
  PlanOptions options = PackedOptions(200, Packer::kBalanced, 2, Sharding::kStrideSorted);
  options.passes[0].layout = Layout::kPadded;
  options.passes[0].min_microbatches = 2;
  options.passes[0].order = MicrobatchOrder::kLargestFirst;
  options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  const std::vector<uint32_t> widths = PlanOf(lengths, options, group_ids).passes[0].row_widths;
  ASSERT_THAT(widths, SizeIs(4));
  EXPECT_EQ(widths[0], widths[2]);
  EXPECT_EQ(widths[1], widths[3]);
}

TEST(MakePlanTest, EmptyMicrobatchesOfAllPassesTogetherAreLimited) {
  PlanOptions options = PackedOptions(10, Packer::kFirstFitDecreasing, 65536);
  options.allow_empty_microbatches = true;
  options.passes[0].min_microbatches = 3;
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprob";
  const auto plan = MakeCheckedPlan(std::vector<uint32_t>{3}, options);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("the plan needs more than 262144"));
}

TEST(MakePlanTest, KarmarkarKarpFillsBinsEvenWhereNothingButMicrobatchesCosts) {
  PlanOptions options = PackedOptions(10, Packer::kKarmarkarKarp);
  options.cost_model = {.per_token = 0, .per_token_squared = 0, .per_microbatch = 1};
  const std::vector<uint32_t> lengths = {9, 8, 7, 3, 2, 1};
  EXPECT_THAT(PlanOf(lengths, options).passes[0].microbatches_per_rank, ElementsAre(3));
}

TEST(MakePlanTest, ALaterPassKeepsTheMiniBatchsOrderWithinARank) {
  PlanOptions options = PackedOptions(10, Packer::kFirstFitDecreasing);
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprob";
  options.passes[1].packer = Packer::kConcatenative;
  EXPECT_THAT(MicrobatchesOf(PlanOf({2, 8, 7, 3}, options).passes[1]),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(MakePlanTest, AGroupBesideAWiderSequenceOfAnotherRankKeepsTheBudget) {
  // Sorted by tokens: 1 | 1, then the pair | 5. Two rows as wide as the 5 would have 10 tokens.
  const std::vector<uint32_t> lengths = {2, 2, 1, 1, 5};
  const std::vector<uint32_t> group_ids = {1, 1, 2, 3, 4};
  PlanOptions options = PackedOptions(9, Packer::kBalanced, 2, Sharding::kStrideSorted);
  options.passes[0].layout = Layout::kPadded;
  options.mini_batches.groups = GroupPolicy::kSameMicrobatch;
  const auto plan = MakeCheckedPlan({.lengths = lengths, .group_ids = group_ids}, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->passes[0].microbatches_per_rank, ::testing::ElementsAre(2));
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
