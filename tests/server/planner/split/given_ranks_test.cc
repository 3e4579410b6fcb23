// Batches that were dispatched before they are planned: every sequence has its rank, and the
// micro-batches of all ranks are planned together. That each stays there the plan checker sees.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "server/planner/make_plan.h"
#include "tests/support/best_step_time.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LengthsOf;
using testing::MakeCheckedPlan;
using testing::PackedOptions;
using testing::RandomStream;

PlanOptions GivenOptions(uint32_t budget, uint32_t ranks, Packer packer = Packer::kBalanced) {
  return PackedOptions(budget, packer, ranks, Sharding::kBalanced);
}

Plan PlanGiven(const std::vector<uint32_t>& lengths, const std::vector<uint32_t>& ranks,
               const PlanOptions& options) {
  const auto plan = MakeCheckedPlan({.lengths = lengths, .ranks = ranks}, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : Plan();
}

// Sequence i on rank i mod `ranks`.
std::vector<uint32_t> InTurn(size_t sequences, uint32_t ranks) {
  std::vector<uint32_t> turns;
  for (uint32_t i = 0; i < sequences; ++i) turns.push_back(i % ranks);
  return turns;
}

TEST(GivenRanksTest, MicrobatchesOfOneSlotAreAlike) {
  // By itself rank 1 would have two micro-batches of six tokens, longer than rank 0's second one.
  const Plan plan = PlanGiven({8, 2, 2, 3, 3, 3, 3}, {0, 0, 0, 1, 1, 1, 1}, GivenOptions(9, 2));
  EXPECT_THAT(LengthsOf(plan.passes[0]),
              ElementsAre(ElementsAre(8), ElementsAre(2, 2), ElementsAre(3, 3, 3), ElementsAre(3)));
}

TEST(GivenRanksTest, ANamedPackerPacksEachRankByItself) {
  const Plan plan = PlanGiven({2, 9, 8, 3, 4, 5, 5, 6}, {0, 0, 0, 0, 1, 1, 1, 1},
                              GivenOptions(10, 2, Packer::kFirstFitDecreasing));
  EXPECT_THAT(LengthsOf(plan.passes[0]),
              ElementsAre(ElementsAre(8, 2), ElementsAre(9), ElementsAre(3), ElementsAre(6, 4),
                          ElementsAre(5), ElementsAre(5)));
}

TEST(GivenRanksTest, AnAccumulatedStepTakesAsLongAsTheCostliestRank) {
  PlanOptions options = GivenOptions(10, 2);
  options.synchronization = Synchronization::kAccumulated;
  options.cost_model = {.per_token = 1, .per_token_squared = 0, .per_microbatch = 100};
  const PlanMetrics metrics =
      PlanGiven({5, 5, 5, 5, 7, 1}, {0, 0, 0, 0, 1, 1}, options).passes[0].metrics;
  EXPECT_EQ(metrics.predicted_step_time, 20 + 2 * 100);
  EXPECT_EQ(metrics.lower_bound_step_time, 20 + 2 * 100);
  EXPECT_TRUE(metrics.certified_optimal);
}

TEST(GivenRanksTest, EveryPassKeepsThemWithinAndOverMiniBatches) {
  PlanOptions options = GivenOptions(64, 4);
  options.mini_batches = {.size = 16, .order = Order::kShuffled, .seed = 5};
  options.allow_empty_microbatches = true;
  options.passes.push_back(options.passes[0]);
  options.passes[1].name = "logprob";
  options.passes[1].max_tokens_per_microbatch = 200;
  options.passes[1].ignore_mini_batches = true;
  options.passes.push_back(options.passes[0]);
  options.passes[2].name = "padded";
  options.passes[2].layout = Layout::kPadded;
  options.passes[2].min_microbatches = 2;
  options.passes[2].microbatch_count_multiple = 2;
  std::vector<uint32_t> lengths;
  for (uint32_t i = 0; i < 64; ++i) lengths.push_back(1 + i * 7 % 60);
  const Plan plan = PlanGiven(lengths, InTurn(64, 4), options);
  EXPECT_EQ(plan.passes[0].microbatches_per_rank.size(), 4);
  EXPECT_EQ(plan.passes[1].microbatches_per_rank.size(), 1);
}

TEST(GivenRanksTest, WhatIsDroppedHasNoRankToKeep) {
  PlanOptions options = GivenOptions(10, 2);
  options.overlong = OverlongPolicy::kDrop;
  const std::vector<uint32_t> lengths = {11, 3, 4, 5, 6};
  const std::vector<uint32_t> ranks = {0, 1, 0, 1, 0};
  EXPECT_THAT(LengthsOf(PlanGiven(lengths, ranks, options).passes[0]),
              ElementsAre(ElementsAre(4, 6), ElementsAre(3, 5)));

  // Counted without it.
  options.passes[0].sequence_counts = EqualCounts::kExact;
  EXPECT_EQ(PlanGiven(lengths, ranks, options).passes[0].microbatches_per_rank[0], 1);
  const auto uneven =
      MakePlan({.lengths = lengths, .ranks = std::vector<uint32_t>{1, 1, 0, 1, 1}}, options);
  EXPECT_THAT(std::string(uneven.status().message()),
              HasSubstr("manifest.ranks has 1 sequence on rank 0 and 3 sequences on rank 1, but "
                        "equal_sequence_counts is set"));

  options.passes[0].sequence_counts = EqualCounts::kWithinOne;
  const auto apart =
      MakePlan({.lengths = lengths, .ranks = std::vector<uint32_t>{0, 0, 1, 0, 0}}, options);
  EXPECT_THAT(std::string(apart.status().message()),
              HasSubstr("manifest.ranks has 1 sequence on rank 1 and 3 sequences on rank 0, but "
                        "sequence_counts is EQUAL_COUNTS_WITHIN_ONE"));
}

TEST(GivenRanksTest, AGroupOfOneMiniBatchMayHaveSeveral) {
  PlanOptions options = GivenOptions(10, 2);
  options.mini_batches = {.size = 2, .groups = GroupPolicy::kSameMiniBatch};
  const std::vector<uint32_t> lengths = {3, 4, 5, 6};
  const std::vector<uint32_t> groups = {7, 8, 7, 8};
  const std::vector<uint32_t> ranks = {0, 1, 1, 0};
  const auto plan =
      MakeCheckedPlan({.lengths = lengths, .group_ids = groups, .ranks = ranks}, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(LengthsOf(plan->passes[0]),
              ElementsAre(ElementsAre(3), ElementsAre(5), ElementsAre(6), ElementsAre(4)));
}

TEST(GivenRanksTest, ARankWithoutSequencesRunsEmptyMicrobatchesWhereTheyAreAllowed) {
  PlanOptions options = GivenOptions(10, 3);
  options.allow_empty_microbatches = true;
  for (const Layout layout : {Layout::kPacked, Layout::kPadded}) {
    options.passes[0].layout = layout;
    const Plan plan = PlanGiven({10, 9, 8, 5, 5, 6}, {0, 0, 0, 2, 2, 2}, options);
    EXPECT_THAT(
        LengthsOf(plan.passes[0]),
        ElementsAre(ElementsAre(10), ElementsAre(9), ElementsAre(8), ElementsAre(), ElementsAre(),
                    ElementsAre(), ElementsAre(6), ElementsAre(5), ElementsAre(5)));
  }
}

// The steps of tiny dispatched batches beside the best of all packings.
TEST(GivenRanksTest, StepsOfAFewSequencesAreCloseToTheShortest) {
  double sum = 0;
  double tried = 0;
  double worst = 1;
  for (const uint64_t seed : testing::Seeds(1500)) {
    RandomStream random(seed);
    const auto ranks = static_cast<uint32_t>(random.Between(1, 3));
    const size_t count = random.Between(ranks, 9);
    PlanOptions options = GivenOptions(24, ranks);
    options.effort = seed % 3 == 0 ? Effort::kThorough : Effort::kDefault;
    options.cost_model = random.OneOf<CostModel>({{1, 0, 0}, {1, 0.05, 0}, {0, 1, 0}});
    std::vector<uint32_t> lengths;
    std::vector<uint64_t> costs;
    for (size_t i = 0; i < count; ++i) {
      lengths.push_back(static_cast<uint32_t>(random.Between(1, random.OneOf<uint64_t>({8, 24}))));
      const double length = lengths.back();
      // In units small enough that rounding does not matter.
      costs.push_back(
          static_cast<uint64_t>(1e6 * (options.cost_model.per_token * length +
                                       options.cost_model.per_token_squared * length * length)));
    }
    const std::vector<uint32_t> rank_of = InTurn(count, ranks);
    const uint64_t least = testing::BestLockstepOfRanks({.lengths = lengths, .loads = costs},
                                                        {.capacity = 24}, ranks, rank_of,
                                                        /*equal_counts=*/true);
    const auto plan = MakeCheckedPlan({.lengths = lengths, .ranks = rank_of}, options);
    ASSERT_EQ(plan.ok(), least < std::numeric_limits<uint64_t>::max()) << "seed " << seed;
    if (!plan.ok()) continue;
    const PlanMetrics& metrics = plan->passes[0].metrics;
    const double best = 1e-6 * static_cast<double>(least);
    ASSERT_LE(metrics.lower_bound_step_time, best * (1 + 1e-6)) << "seed " << seed;
    ASSERT_GE(metrics.predicted_step_time, best * (1 - 1e-6)) << "seed " << seed;
    sum += metrics.predicted_step_time / best;
    worst = std::max(worst, metrics.predicted_step_time / best);
    ++tried;
  }
  RecordProperty("mean_excess_per_mille", static_cast<int>(1000 * (sum / tried - 1)));
  RecordProperty("worst_excess_per_mille", static_cast<int>(1000 * (worst - 1)));
  EXPECT_LE(sum / tried, 1.002);
}

TEST(GivenRanksTest, StepsAreNoLongerThanWithAPresetsPackerAndNoShorterThanTheBound) {
  for (const uint64_t seed : testing::Seeds(60)) {
    const auto lengths = testing::ZipfLengths(160, seed);
    const std::vector<uint32_t> ranks = InTurn(lengths.size(), 8);
    const auto step_time = [&](Packer packer) {
      const PlanMetrics metrics =
          PlanGiven(lengths, ranks, GivenOptions(16384, 8, packer)).passes[0].metrics;
      EXPECT_GE(metrics.predicted_step_time, metrics.lower_bound_step_time * (1 - 1e-9));
      return metrics.predicted_step_time;
    };
    const double balanced = step_time(Packer::kBalanced);
    for (const Packer packer : {Packer::kKarmarkarKarp, Packer::kModifiedFirstFitDecreasing}) {
      ASSERT_LE(balanced, step_time(packer) * (1 + 1e-9)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace batchplan
