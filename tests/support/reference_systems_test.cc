#include "tests/support/reference_systems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/generators.h"

namespace batchplan::testing {
namespace {

using ::testing::ElementsAre;

using Lists = std::vector<std::vector<uint32_t>>;

TEST(ReferenceSystemsTest, NemoRlSpreadsLeftoversAndTakesOneBinMoreThanFirstFit) {
  EXPECT_EQ(NemoRlBins(std::vector<uint32_t>{3, 2, 4, 4, 4, 5, 2}, 12).size(), 3);
}

TEST(ReferenceSystemsTest, NemoRlFillsNewBinsWithSingleSequences) {
  const std::vector<uint32_t> lengths = {2, 2, 2, 2, 2, 9};
  Lists bins = NemoRlBins(lengths, 10);
  NemoRlAddBins(bins, 4);
  EXPECT_EQ(bins, (Lists{{5}, {4, 3, 2}, {0}, {1}}));
}

TEST(ReferenceSystemsTest, VerlExceedsTheBudgetOfEightSevens) {
  const std::vector<uint32_t> lengths(8, 7);
  const RankMicrobatches plan = VerlPlan(lengths, 8, 1);
  ASSERT_EQ(plan[0].size(), 7);
  size_t most = 0;
  for (const std::vector<uint32_t>& microbatch : plan[0]) most = std::max(most, microbatch.size());
  EXPECT_EQ(most, 2);
}

TEST(ReferenceSystemsTest, KarmarkarKarpEvensOutSums) {
  // Sums of 16 and 14, where 15 and 15 is possible.
  EXPECT_EQ(VerlPartition(std::vector<uint64_t>{8, 7, 6, 5, 4}, 2, false),
            (Lists{{1, 3, 4}, {0, 2}}));
}

TEST(ReferenceSystemsTest, EverySequenceIsPlannedOnce) {
  const std::vector<uint32_t> lengths = MathsLengths(512, 1);
  for (const RankMicrobatches& plan :
       {NemoRlPlan(lengths, 16384, 8), VerlPlan(lengths, 16384, 8), RollPlan(lengths, 16384, 8)}) {
    ASSERT_EQ(plan.size(), 8);
    std::vector<int> seen(lengths.size(), 0);
    for (const auto& rank : plan) {
      EXPECT_EQ(rank.size(), plan[0].size());
      for (const auto& microbatch : rank) {
        for (const uint32_t item : microbatch) ++seen[item];
      }
    }
    EXPECT_THAT(seen, ::testing::Each(1));
  }
}

}  // namespace
}  // namespace batchplan::testing
