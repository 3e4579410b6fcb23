#include "server/planner/request/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CostFunction Make(const CostModel& model, const std::vector<uint32_t>& lengths,
                  uint64_t tail_tokens = 0, uint32_t ranks = 1) {
  return CostFunction::Create(model, {.ranks = ranks, .aligned_lengths = lengths}, lengths.size(),
                              tail_tokens)
      .value();
}

// Attention costs as much as the rest at 1,000 tokens; the exchange is 0.02 a token up to 8 ranks,
// 0.065 beyond.
CostModel WithExchange(bool overlaps = false) {
  return {.per_token_squared = 1.0 / 1000,
          .per_microbatch = 7,
          .per_sequence = 3,
          .exchange = {{.up_to_size = 8, .per_token = 0.02}, {.per_token = 0.065}},
          .exchange_overlaps = overlaps};
}

TEST(CostTest, IsThePolynomialOfTheModel) {
  const CostFunction cost =
      Make({.per_token = 2, .per_token_squared = 0.25, .per_microbatch = 7, .per_sequence = 30},
           {100, 200, 300}, 50);
  EXPECT_NEAR(cost.ToUnits(cost.OfSequence(100)), 2 * 100 + 0.25 * 100 * 100 + 30, 1e-6);
  EXPECT_NEAR(cost.ToUnits(cost.OfMicrobatch()), 7, 1e-6);
  EXPECT_NEAR(cost.ToUnits(cost.OfTail(50)), 100, 1e-6);
}

TEST(CostTest, TheDefaultMakesAttentionAsDearAsTheRestAtItsConstant) {
  const CostFunction cost = Make({}, {24576});
  EXPECT_NEAR(cost.ToUnits(cost.OfSequence(24576)), 2.0 * 24576, 1e-6);
}

TEST(CostTest, TotalsStayBelowTwoToThe62) {
  for (const uint32_t length : {1u, 1000u, 4294967295u}) {
    for (const double scale : {5e-324, 1e-300, 1.0, 1e250}) {
      const std::vector<uint32_t> lengths(1000, length);
      const CostFunction cost = Make({.per_token = scale,
                                      .per_token_squared = scale,
                                      .per_microbatch = scale,
                                      .per_sequence = scale},
                                     lengths);
      const Cost one = cost.OfSequence(length) + cost.OfMicrobatch();
      EXPECT_LT(one, (uint64_t{1} << 62) / 1000) << length << " " << scale;
      EXPECT_GT(one * 1000, uint64_t{1} << 58) << length << " " << scale;
    }
  }
}

TEST(CostTest, CoefficientsOfZeroCostNothing) {
  const CostFunction cost =
      Make({.per_token = 0, .per_token_squared = 0, .per_microbatch = 5e-324}, {1, 4000000000});
  EXPECT_EQ(cost.OfSequence(4000000000), 0);
  EXPECT_GT(cost.OfMicrobatch(), 0);
}

TEST(CostTest, NeverFallsWithLength) {
  std::vector<uint32_t> lengths(5000);
  for (uint32_t i = 0; i < lengths.size(); ++i) lengths[i] = i + 1;
  const CostFunction cost = Make({}, lengths);
  for (uint32_t length = 1; length < 5000; ++length) {
    ASSERT_LT(cost.OfSequence(length), cost.OfSequence(length + 1));
  }
}

TEST(CostTest, AnInfiniteTotalIsRefused) {
  const std::vector<uint32_t> lengths = {1000, 1000};
  for (const CostModel& model :
       {CostModel{.per_token_squared = 1e308}, CostModel{.exchange = {{.per_token = 1e308}}}}) {
    const auto cost = CostFunction::Create(model, {.ranks = 2, .aligned_lengths = lengths}, 2, 0);
    EXPECT_EQ(cost.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(CostTest, RanksShareASequenceAndPayForWhatTheOthersHold) {
  const std::vector<uint32_t> lengths = {1000, 2000};
  const struct {
    uint32_t ranks;
    double cost;
  } cases[] = {
      {1, 1000 + 1000 + 3},
      {2, 500 + 500 + 0.02 * 1000 / 2 + 3},
      {8, 125 + 125 + 0.02 * 1000 * 7 / 8 + 3},
      {16, 62.5 + 62.5 + 60.9375 + 3},  // 0.065 * 1000 * 15 / 16
  };
  for (const auto& [ranks, expected] : cases) {
    const CostFunction cost = Make(WithExchange(), lengths, 100, ranks);
    EXPECT_NEAR(cost.ToUnits(cost.OfSequence(1000)), expected, 1e-9) << ranks;
    EXPECT_NEAR(cost.ToUnits(cost.OfComputation(1000)), 2000.0 / ranks + 3, 1e-9) << ranks;
    EXPECT_NEAR(cost.ToUnits(cost.OfTail(100)), 100.0 / ranks, 1e-9) << ranks;
    EXPECT_NEAR(cost.ToUnits(cost.OfMicrobatch()), 7, 1e-9) << ranks;
  }
}

TEST(CostTest, SizesBeyondTheLastEntryExchangeForNothing) {
  CostModel model = WithExchange();
  model.exchange.pop_back();
  EXPECT_GT(ExchangePerToken(model, 8), 0);
  EXPECT_EQ(ExchangePerToken(model, 9), 0);
  EXPECT_EQ(ExchangePerToken(model, 1), 0);
}

TEST(CostTest, AttentionHidesAnExchangeThatOverlaps) {
  const std::vector<uint32_t> lengths = {100, 1000};
  const CostFunction cost = Make(WithExchange(true), lengths, 0, 16);
  // 62.5 of attention hide 60.9375; the 0.625 of a tenth of the tokens hide as much of 6.09375.
  EXPECT_NEAR(cost.ToUnits(cost.OfSequence(1000)), 62.5 + 62.5 + 3, 1e-9);
  EXPECT_NEAR(cost.ToUnits(cost.OfSequence(100)), 6.25 + 6.09375 + 3, 1e-9);
  EXPECT_NEAR(cost.ToUnits(cost.OfComputation(100)), 6.25 + 0.625 + 3, 1e-9);
}

TEST(CostTest, AnExchangeThatLeavesNothingOfAllElseIsRefusedWhereSizesDiffer) {
  const std::vector<uint32_t> lengths(10, 1000);
  CostModel model = {.per_token_squared = 0, .exchange = {{.up_to_size = 2}, {.per_token = 1}}};
  const SharedSequences sizes[] = {{.ranks = 1, .aligned_lengths = lengths},
                                   {.ranks = 4, .aligned_lengths = lengths}};
  // A token costs 1 on one rank, and is exchanged for three quarters of `per_token`.
  for (const double per_token : {1e6, 1.3e6}) {
    model.exchange.back().per_token = per_token;
    EXPECT_TRUE(CostFunction::CreateForSizes(model, sizes, 4, 10, 0).ok());
  }
  for (const double per_token : {1.5e6, 1e100}) {
    model.exchange.back().per_token = per_token;
    EXPECT_THAT(
        std::string(CostFunction::CreateForSizes(model, sizes, 4, 10, 0).status().message()),
        AllOf(HasSubstr("cost_model.exchange[1].per_token is 1"),
              HasSubstr("what groups of 4 ranks exchange"),
              HasSubstr("above the limit of 1.04858e+06 times what all else")));
    EXPECT_TRUE(CostFunction::Create(model, {.ranks = 8, .aligned_lengths = lengths}, 10, 0).ok());
  }
}

TEST(CostTest, WaitingIsHeldAgainstWhatOneRankPays) {
  const std::vector<uint32_t> lengths(10, 1000);
  const CostModel model = {.per_token_squared = 0};
  const SharedSequences sizes[] = {{.ranks = 1, .aligned_lengths = lengths}};
  EXPECT_THAT(
      std::string(CostFunction::CreateForSizes(model, sizes, 64, 10, 0, 1.2e13).status().message()),
      AllOf(HasSubstr("pipeline.transfer: what micro-batches wait to arrive, 1.2e+13,"),
            HasSubstr("times what the whole batch costs, 10000;")));
}

TEST(CostTest, SizesHaveOneScaleAndAllRanksTogetherStayBelowTwoToThe62) {
  // Groups of 8 align lengths to 16.
  std::vector<uint32_t> of_one(1000, 1000);
  std::vector<uint32_t> of_eight(1000, 1008);
  for (const double exchange : {0.0, 0.02, 50.0}) {
    CostModel model = WithExchange();
    model.exchange = {{.per_token = exchange}};
    const SharedSequences sizes[] = {{.ranks = 1, .aligned_lengths = of_one},
                                     {.ranks = 8, .aligned_lengths = of_eight}};
    const std::vector<CostFunction> costs =
        CostFunction::CreateForSizes(model, sizes, 8, 1000, 0).value();
    ASSERT_EQ(costs.size(), 2u);
    EXPECT_EQ(costs[0].OfMicrobatch(), costs[1].OfMicrobatch());
    EXPECT_EQ(costs[0].FromUnits(1.0), costs[1].FromUnits(1.0));
    EXPECT_NEAR(costs[0].ToUnits(costs[0].OfSequence(1000)), 2003, 1e-6);
    EXPECT_NEAR(costs[1].ToUnits(costs[1].OfSequence(1008)),
                (1008 + 1008 * 1.008) / 8 + exchange * 882 + 3, 1e-6);
    const Cost most =
        std::max(costs[0].OfSequence(1000), costs[1].OfSequence(1008)) + costs[0].OfMicrobatch();
    EXPECT_LT(most, (uint64_t{1} << 62) / 8000) << exchange;
    EXPECT_GT(most * 8000, uint64_t{1} << 58) << exchange;
  }
}

}  // namespace
}  // namespace batchplan
