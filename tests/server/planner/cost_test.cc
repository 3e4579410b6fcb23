#include "server/planner/cost.h"

#include <gtest/gtest.h>

#include <vector>

namespace batchplan {
namespace {

CostFunction Make(const CostModel& model, const std::vector<uint32_t>& lengths,
                  uint64_t tail_tokens = 0) {
  return CostFunction::Create(model, lengths, lengths.size(), tail_tokens).value();
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
  const auto cost =
      CostFunction::Create({.per_token_squared = 1e308}, std::vector<uint32_t>{1000, 1000}, 2, 0);
  EXPECT_EQ(cost.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace batchplan
