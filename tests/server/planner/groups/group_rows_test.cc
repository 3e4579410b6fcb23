// Padded rows of groups that differ in size: which sizes are chosen, how wide rows are, and what no
// group can hold. Small cases are calculated by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "server/planner/make_plan.h"
#include "server/planner/request/context_sizes.h"
#include "server/planner/request/pass_limits.h"
#include "server/planner/request/presets.h"
#include "tests/support/checked_plan.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeCheckedPlan;

// Two ranks that hold `budget` tokens each. A token costs 1; on both ranks it costs half, plus half
// of `exchange`. Both ranks round lengths up to multiples of 4.
PlanOptions TwoRanks(uint32_t budget, RowPadding rows, double exchange = 0.01) {
  PlanOptions options;
  options.topology.data_parallel = 2;
  options.topology.dynamic_context.emplace();
  options.cost_model = {.per_token = 1, .per_token_squared = 0};
  options.cost_model.exchange = {{.up_to_size = 0, .per_token = exchange}};
  PassOptions& pass = options.passes.emplace_back();
  pass.max_tokens_per_microbatch = budget;
  pass.rows = rows;
  return options;
}

// An ordinary batch on `ranks` ranks, with the costs of a model and this row padding.
PlanOptions OrdinaryOptions(uint32_t ranks, uint32_t budget, RowPadding rows) {
  PlanOptions options;
  options.topology.data_parallel = ranks;
  options.topology.dynamic_context.emplace();
  options.cost_model = DefaultCosts(options.topology);
  PassOptions& pass = options.passes.emplace_back();
  pass.max_tokens_per_microbatch = budget;
  pass.rows = rows;
  if (rows == RowPadding::kBuckets) pass.buckets = {budget / 4, budget / 2, budget};
  return options;
}

constexpr RowPadding kPaddings[] = {RowPadding::kLongest, RowPadding::kCapacity,
                                    RowPadding::kBuckets};

TEST(GroupRowsTest, TheCapacityDecidesWhatAGroupCosts) {
  // One rank holds 7 tokens, and both hold 12. Apart the sequences cost 5, together (8 + 4) / 2 and
  // the exchange; with rows of the capacity 7, and 12 / 2 and the exchange.
  const std::vector<uint32_t> lengths = {5, 4};
  const auto unpadded = MakeCheckedPlan(lengths, TwoRanks(7, RowPadding::kNone));
  ASSERT_TRUE(unpadded.ok()) << unpadded.status();
  EXPECT_THAT(unpadded->passes[0].context_sizes, ElementsAre(1, 1));
  EXPECT_DOUBLE_EQ(unpadded->passes[0].metrics.predicted_step_time, 5);
  const auto plan = MakeCheckedPlan(lengths, TwoRanks(7, RowPadding::kCapacity));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->passes[0].context_sizes, ElementsAre(2));
  EXPECT_THAT(plan->passes[0].row_widths, ElementsAre(12));
  EXPECT_NEAR(plan->passes[0].metrics.predicted_step_time, 6.06, 1e-9);
  // No slots take less than one rank's row of 7, or half of the 12 of both.
  EXPECT_NEAR(plan->passes[0].metrics.lower_bound_step_time, 6, 1e-9);
}

TEST(GroupRowsTest, OneLongRowMakesAllOfItsSizeAsLong) {
  // Apart two slots cost 7 and 1, but their four rows are all as wide as 7. On both ranks one of 7
  // takes a row of 8, and leaves rows of 1 to the single ranks.
  const std::vector<uint32_t> lengths = {7, 7, 1, 1};
  const auto unpadded = MakeCheckedPlan(lengths, TwoRanks(7, RowPadding::kNone));
  ASSERT_TRUE(unpadded.ok()) << unpadded.status();
  EXPECT_THAT(unpadded->passes[0].context_sizes, Each(1));
  EXPECT_DOUBLE_EQ(unpadded->passes[0].metrics.predicted_step_time, 8);
  const auto plan = MakeCheckedPlan(lengths, TwoRanks(7, RowPadding::kLongest));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->passes[0].context_sizes, ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(plan->passes[0].row_widths, ElementsAre(8, 8, 1, 1));
  EXPECT_NEAR(plan->passes[0].metrics.predicted_step_time, 2 * 4.04 + 1, 1e-9);
}

TEST(GroupRowsTest, TheLongestIsThatOfTheMiniBatch) {
  PlanOptions options = TwoRanks(8, RowPadding::kLongest);
  options.topology.dynamic_context->max_size = 1;
  options.mini_batches.size = 4;
  options.cost_model.per_microbatch = 1;
  const std::vector<uint32_t> lengths = {7, 7, 7, 7, 3, 2, 3, 3};
  const auto plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->passes[0].row_widths, ElementsAre(7, 7, 7, 7, 6, 6));
}

TEST(GroupRowsTest, BucketsAreOfContextParallelRanks) {
  // Of rows of 6 and 8 tokens for a rank, two have 12 and 16. Apart the sequences cost 7, in rows
  // of 8 and 6 that is 8; together (8 + 4) / 2 + 1.2, which fills a row of 12.
  const std::vector<uint32_t> lengths = {7, 1};
  const auto unpadded = MakeCheckedPlan(lengths, TwoRanks(8, RowPadding::kNone, 0.2));
  ASSERT_TRUE(unpadded.ok()) << unpadded.status();
  EXPECT_THAT(unpadded->passes[0].context_sizes, ElementsAre(1, 1));
  PlanOptions options = TwoRanks(8, RowPadding::kBuckets, 0.2);
  options.passes[0].buckets = {6, 8};
  const auto plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->passes[0].context_sizes, ElementsAre(2));
  EXPECT_THAT(plan->passes[0].row_widths, ElementsAre(12));
  EXPECT_NEAR(plan->passes[0].metrics.predicted_step_time, 7.2, 1e-9);
  options.topology.dynamic_context->max_size = 1;
  const auto apart = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_THAT(apart->passes[0].row_widths, ElementsAre(8, 6));
}

TEST(GroupRowsTest, TheWidestBucketIsWhatAGroupHolds) {
  // One rank holds 8 tokens, but no row is wider than 6.
  PlanOptions options = TwoRanks(8, RowPadding::kBuckets);
  options.passes[0].buckets = {2, 6};
  const auto plan = MakeCheckedPlan(std::vector<uint32_t>{4, 4, 4, 4}, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->passes[0].metrics.lower_bound_microbatches, 2);
  for (const uint32_t width : plan->passes[0].row_widths) EXPECT_LE(width, 12);
}

TEST(GroupRowsTest, EmptyGroupsHaveNoRow) {
  for (const RowPadding rows : kPaddings) {
    PlanOptions options = TwoRanks(8, rows);
    options.topology.dynamic_context->max_size = 1;
    options.allow_empty_microbatches = true;
    options.cost_model.per_microbatch = 3;
    options.passes[0].min_microbatches = 2;
    if (rows == RowPadding::kBuckets) options.passes[0].buckets = {8};
    const auto plan = MakeCheckedPlan(std::vector<uint32_t>{5}, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_THAT(plan->passes[0].row_widths,
                ElementsAre(rows == RowPadding::kLongest ? 5 : 8, 0, 0, 0));
    // The second slot has the fixed cost alone.
    EXPECT_NEAR(plan->passes[0].metrics.predicted_step_time,
                (rows == RowPadding::kLongest ? 5 : 8) + 2 * 3, 1e-9);
  }
}

// With one size alone, groups are ranks of a topology with that context_parallel.
TEST(GroupRowsTest, GroupsOfOneSizeAreNotSlowerThanRanksOfIt) {
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    for (const RowPadding rows : kPaddings) {
      for (const uint32_t size : {1u, 2u, 8u}) {
        const std::vector<uint32_t> lengths = testing::MathsLengths(120, size);
        PlanOptions options = OrdinaryOptions(8, 16384, rows);
        options.synchronization = synchronization;
        options.topology.dynamic_context = {size, size};
        const auto groups = MakeCheckedPlan(lengths, options);
        ASSERT_TRUE(groups.ok()) << groups.status();
        EXPECT_THAT(groups->passes[0].context_sizes, Each(size));
        PlanOptions fixed = options;
        fixed.topology = {.data_parallel = 8 / size, .context_parallel = size};
        fixed.passes[0].max_tokens_per_microbatch *= size;
        for (uint32_t& bucket : fixed.passes[0].buckets) bucket *= size;
        const auto ranks = MakeCheckedPlan(lengths, fixed);
        ASSERT_TRUE(ranks.ok()) << ranks.status();
        EXPECT_LE(groups->passes[0].metrics.predicted_step_time,
                  ranks->passes[0].metrics.predicted_step_time * (1 + 1e-9))
            << "CP " << size << " rows " << static_cast<int>(rows);
        if (rows != RowPadding::kCapacity) continue;
        EXPECT_THAT(groups->passes[0].row_widths, Each(ranks->passes[0].row_widths.front()));
      }
    }
  }
}

// What holds of any padding: it makes no step shorter, and rows of the capacity none below them.
TEST(GroupRowsTest, NoPaddingIsBelowTheBoundOfLess) {
  for (const uint64_t seed : testing::Seeds(12)) {
    const std::vector<uint32_t> lengths = testing::LongCotLengths(80, seed);
    PlanOptions options = OrdinaryOptions(8, 16384, RowPadding::kNone);
    options.synchronization =
        seed % 2 == 0 ? Synchronization::kLockstep : Synchronization::kAccumulated;
    const auto unpadded = MakeCheckedPlan(lengths, options);
    ASSERT_TRUE(unpadded.ok()) << unpadded.status();
    const double bound = unpadded->passes[0].metrics.lower_bound_step_time * (1 - 1e-9);
    for (const RowPadding rows : kPaddings) {
      options.passes[0] = OrdinaryOptions(8, 16384, rows).passes[0];
      const auto plan = MakeCheckedPlan(lengths, options);
      ASSERT_TRUE(plan.ok()) << plan.status();
      const PlanMetrics& metrics = plan->passes[0].metrics;
      EXPECT_LE(bound, metrics.lower_bound_step_time) << "seed " << seed;
      EXPECT_LE(bound, metrics.predicted_step_time) << "seed " << seed;
      EXPECT_EQ(metrics.true_tokens, unpadded->passes[0].metrics.true_tokens);
    }
  }
}

TEST(GroupRowsTest, OneBucketOfTheBudgetIsTheCapacity) {
  const std::vector<uint32_t> lengths = testing::MathsLengths(100, 3);
  PlanOptions options = OrdinaryOptions(8, 16384, RowPadding::kBuckets);
  options.passes[0].buckets = {16384};
  const auto plan = MakeCheckedPlan(lengths, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const PassPlan& pass = plan->passes[0];
  for (size_t m = 0; m < pass.row_widths.size(); ++m) {
    EXPECT_EQ(pass.row_widths[m], 16384 * pass.context_sizes[m]);
  }
}

TEST(GroupRowsTest, MegatronsSchedulerAndLaterPassesHaveRowsOfTheirOwn) {
  const std::vector<uint32_t> lengths = testing::MathsLengths(160, 5);
  for (const Sharding sharding : {Sharding::kBalanced, Sharding::kMegatronDynamicCp}) {
    PlanOptions options = OrdinaryOptions(8, 16384, RowPadding::kLongest);
    options.passes[0].sharding = sharding;
    PassOptions second = OrdinaryOptions(8, 32768, RowPadding::kBuckets).passes[0];
    second.name = "second";
    second.sharding = sharding;
    PassOptions third = OrdinaryOptions(8, 24576, RowPadding::kCapacity).passes[0];
    third.name = "third";
    third.sharding = sharding;
    options.passes.insert(options.passes.end(), {second, third});
    const auto plan = MakeCheckedPlan(lengths, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (size_t m = 0; m < plan->passes[2].row_widths.size(); ++m) {
      EXPECT_EQ(plan->passes[2].row_widths[m], 24576 * plan->passes[2].context_sizes[m]);
    }
  }
}

std::string RefusalOf(const PlanOptions& options, const std::vector<uint32_t>& lengths) {
  const auto plan = MakePlan({.lengths = lengths}, options);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(GroupRowsTest, ABucketThatIsNotOneForEverySizeIsRefused) {
  // Two of the four ranks that it is for have 6 of its tokens, in multiples of 4.
  PlanOptions options = OrdinaryOptions(2, 100, RowPadding::kBuckets);
  options.topology.context_parallel = 4;
  options.passes[0].buckets = {16, 12};
  std::ranges::sort(options.passes[0].buckets);
  EXPECT_THAT(RefusalOf(options, {1, 2, 3, 4, 5, 6, 7, 8}),
              HasSubstr("passes[0].packed.buckets[0] is 12, which for topology.context_parallel 4 "
                        "is 6 for groups of 2 ranks of topology.dynamic_context, not a multiple of "
                        "the length multiple 4 of such groups"));
  options.passes[0].buckets = {18};
  EXPECT_THAT(RefusalOf(options, {1, 2, 3, 4, 5, 6, 7, 8}),
              HasSubstr("is 4 and 2/4 for groups of 1 ranks"));
}

TEST(GroupRowsTest, BucketsBeyondWhatAnyGroupHoldsAreRefused) {
  PlanOptions options = OrdinaryOptions(4096, 1 << 22, RowPadding::kBuckets);
  options.passes[0].buckets = {1 << 22};
  EXPECT_THAT(RefusalOf(options, std::vector<uint32_t>(4096, 8)),
              HasSubstr("passes[0].packed.buckets[0] is 4194304, which for "
                        "topology.context_parallel 1 is 4294967296 for groups of 1024 ranks of "
                        "topology.dynamic_context, above the limit of 2147483648"));
}

TEST(GroupRowsTest, BucketsThatHoldNotTheLongestSequenceAreRefused) {
  PlanOptions options = OrdinaryOptions(4, 100, RowPadding::kBuckets);
  options.passes[0].buckets = {16, 32};
  EXPECT_THAT(RefusalOf(options, {8, 8, 130, 8}),
              HasSubstr("passes[0].packed.buckets ends at 32, so that groups of 4 ranks, the most "
                        "of topology.dynamic_context, hold 128, but the longest sequence takes 136 "
                        "tokens; add a bucket that holds it"));
  EXPECT_TRUE(MakeCheckedPlan(std::vector<uint32_t>{8, 8, 128, 8}, options).ok());
}

TEST(GroupRowsTest, ABucketThatBreaksTheAlignmentOfRanksIsRefused) {
  PlanOptions options;
  PassOptions& pass = options.passes.emplace_back();
  pass.max_tokens_per_microbatch = 30;
  pass.length_multiple = 4;
  pass.rows = RowPadding::kBuckets;
  pass.buckets = {20, 27};
  EXPECT_EQ(PassLimitsOf(options).status().message(),
            "passes[0].packed.buckets[1] is 27, not a multiple of the length multiple 4");
}

}  // namespace
}  // namespace batchplan
