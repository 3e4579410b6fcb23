// Numbers in text, and plans from elsewhere that do not fit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/microbatches.h"
#include "client/cli/rank_table.h"
#include "client/cli/table.h"

namespace batchplan::cli {
namespace {

// One mini-batch of [5, 3 | 4 | 2 | 1] on two ranks of two slots.
v1::PassPlan SmallPlan() {
  v1::PassPlan plan;
  for (const uint32_t index : {0, 1, 2, 3, 4}) plan.add_sequence_index(index);
  for (const uint32_t length : {5, 3, 4, 2, 1}) plan.add_sequence_lengths(length);
  for (const uint32_t offset : {0, 2, 3, 4, 5}) plan.add_microbatch_offsets(offset);
  for (const uint32_t width : {12, 4, 4, 4}) plan.add_row_widths(width);
  plan.add_microbatches_per_rank(2);
  plan.set_length_multiple(4);
  return plan;
}

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({Justify::kLeft, Justify::kRight, Justify::kLeft});
  table.AddRow({"a", "1", "x"});
  table.AddRow({"bcd", "1,000", ""});
  EXPECT_EQ(table.ToString(), "a        1  x\nbcd  1,000\n");
}

TEST(Table, NumbersAreGroupedByThousands) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1000), "1,000");
  EXPECT_EQ(WithThousands(18446744073709551615U), "18,446,744,073,709,551,615");
  EXPECT_EQ(Percent(0.9371), "93.7%");
  EXPECT_EQ(Decimal(0.1234567), "0.123457");
  EXPECT_EQ(Decimal(99999.94), "99999.9");
  EXPECT_EQ(Decimal(1234567.8), "1,234,568");
  EXPECT_EQ(Decimal(1e20), "1e+20");
  EXPECT_EQ(Milliseconds(12.345), "12.3 ms");
}

TEST(Microbatches, TokensAndCostsFollowTheLayout) {
  const v1::PassPlan plan = SmallPlan();
  const auto packed = ListMicrobatches(plan, Layout::kPacked, 2);
  ASSERT_TRUE(packed.ok()) << packed.status();
  ASSERT_EQ(packed->size(), 4U);
  EXPECT_EQ((*packed)[0].true_tokens, 8U);
  EXPECT_EQ((*packed)[0].aligned_tokens, 12U);
  EXPECT_EQ((*packed)[0].scheduled_tokens, 12U);
  EXPECT_EQ((*packed)[2].rank, 1U);
  EXPECT_EQ((*packed)[3].slot, 1U);

  v1::CostModel cost;
  cost.set_per_token(1);
  cost.set_per_microbatch(10);
  const std::vector<RankLoad> ranks = SumByRank(*packed, plan, Layout::kPacked, 2, cost);
  EXPECT_DOUBLE_EQ(ranks[0].cost, 12 + 4 + 20);
  EXPECT_DOUBLE_EQ(ranks[1].cost, 4 + 4 + 20);

  const auto padded = ListMicrobatches(plan, Layout::kPadded, 2);
  ASSERT_TRUE(padded.ok()) << padded.status();
  EXPECT_EQ((*padded)[0].scheduled_tokens, 24U);
  EXPECT_DOUBLE_EQ(SumByRank(*padded, plan, Layout::kPadded, 2, cost)[0].cost, 24 + 4 + 20);
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

TEST(RankTable, ListsFewRanksAndSumsUpMany) {
  std::vector<RankLoad> ranks(kMostRanksListed, RankLoad{1, 2, 50, 10});
  ranks[3].cost = 20;
  EXPECT_THAT(FormatRankTable(ranks, 100), ::testing::HasSubstr("50.0%"));
  ranks.emplace_back();
  EXPECT_THAT(FormatRankTable(ranks, 100),
              ::testing::AllOf(::testing::HasSubstr("33 ranks"),
                               ::testing::HasSubstr("slowest: rank 3\n")));
}

}  // namespace
}  // namespace batchplan::cli
