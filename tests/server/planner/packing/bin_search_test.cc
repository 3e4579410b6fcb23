#include "server/planner/packing/bin_search.h"

#include <gtest/gtest.h>

#include <vector>

#include "server/planner/packing/kinds.h"
#include "server/planner/packing/packer.h"
#include "tests/server/planner/packing/expect_packed.h"
#include "tests/support/brute_force.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;

TEST(MinimumBinSlackTest, PacksByAnyMeasureWithAnySteps) {
  RandomStream random(testing::Seed(1));
  for (uint64_t i = 0; i < testing::Cases(3000); ++i) {
    const auto capacity = static_cast<uint32_t>(random.Between(1, 200));
    std::vector<uint32_t> lengths(random.Between(1, 100));
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(1, capacity));
    const Kinds kinds = KindsOf(lengths, capacity);
    const DualFeasible worth(static_cast<uint32_t>(random.Between(1, capacity)), capacity);
    uint64_t steps = random.Between(0, 2000);
    const auto bins = MinimumBinSlack(
        kinds, worth, lengths.size(),
        {.steps_a_bin = random.Between(0, 300), .spare_small = random.Chance(50)}, steps);
    ASSERT_TRUE(bins.has_value());
    ExpectPacked(*bins, kinds);
  }
}

TEST(MinimumBinSlackTest, PrefersBinsWithoutSlack) {
  // First fit decreasing puts the 6 with the 3 and needs three bins.
  const std::vector<uint32_t> lengths = {6, 5, 3, 2, 2, 2};
  EXPECT_EQ(Pack(Packer::kFirstFitDecreasing, {.lengths = lengths}, {.capacity = 10}, 0).size(), 3);
  const Kinds kinds = KindsOf(lengths, 10);
  uint64_t steps = 1000;
  const auto bins = MinimumBinSlack(kinds, DualFeasible(10, 10), 2, {.steps_a_bin = 100}, steps);
  ASSERT_TRUE(bins.has_value());
  ExpectPacked(*bins, kinds);
  EXPECT_EQ(bins->size(), 2);
}

TEST(MinimumBinSlackTest, GivesUpOnTooFewBins) {
  const Kinds kinds = KindsOf(std::vector<uint32_t>{6, 6, 6, 2}, 10);
  uint64_t steps = 1000;
  EXPECT_FALSE(MinimumBinSlack(kinds, DualFeasible(10, 10), 2, {.steps_a_bin = 100}, steps));
}

TEST(BinCompletionTest, FindsTheOptimumAndProvesIt) {
  RandomStream random(testing::Seed(1));
  for (uint64_t i = 0; i < testing::Cases(5000); ++i) {
    const auto capacity = static_cast<uint32_t>(random.Between(1, 40));
    std::vector<uint32_t> lengths(random.Between(1, 10));
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(1, capacity));
    const Kinds kinds = KindsOf(lengths, capacity);
    const size_t optimum = testing::BruteForceMinBins(lengths, capacity);
    uint64_t steps = 1'000'000;
    const Completion found = CompleteBins(kinds, kinds.demand, optimum, steps);
    ASSERT_TRUE(found.bins.has_value());
    ASSERT_LE(found.bins->size(), optimum);
    ExpectPacked(*found.bins, kinds);
    const Completion refuted = CompleteBins(kinds, kinds.demand, optimum - 1, steps);
    ASSERT_FALSE(refuted.bins.has_value());
    ASSERT_TRUE(refuted.exhausted);
  }
}

TEST(BinCompletionTest, ClaimsNothingWhenStepsRunOut) {
  const std::vector<uint32_t> lengths = testing::TripletLengths(100, 1, 1000);
  const Kinds kinds = KindsOf(lengths, 1000);
  uint64_t steps = 1000;
  const Completion completion = CompleteBins(kinds, kinds.demand, 100, steps);
  EXPECT_FALSE(completion.bins.has_value());
  EXPECT_FALSE(completion.exhausted);
  EXPECT_EQ(steps, 0);
}

TEST(BinCompletionTest, NothingNeedsNoBins) {
  uint64_t steps = 10;
  const Completion completion =
      CompleteBins({.lengths = {}, .demand = {}, .capacity = 1}, {}, 0, steps);
  ASSERT_TRUE(completion.bins.has_value());
  EXPECT_EQ(completion.bins->size(), 0);
}

}  // namespace
}  // namespace batchplan
