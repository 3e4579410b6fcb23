#include "server/planner/padded/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/planner/padded/level_split.h"
#include "server/planner/padded/sorted_scan.h"
#include "tests/server/planner/padded/random_items.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using testing::IsSplit;
using testing::RandomItems;
using testing::RandomStream;

TEST(SlotsTest, RunsOfSimilarCostShareASlot) {
  const std::vector<uint64_t> costs = {3, 9, 1, 9};
  EXPECT_EQ(LockstepCost(costs, 2), 12);
  EXPECT_EQ(LockstepCost(costs, 1), 22);
  EXPECT_EQ(LockstepCost(costs, 4), 9);
}

TEST(SlotsTest, ACutMovesToWhereSlotsCostLess) {
  const std::vector<uint32_t> widths = {1, 1, 1, 4, 4, 4};
  const std::vector<uint64_t> costs(widths.begin(), widths.end());
  // 1 1 1 4 | 4 4 cost 16 and 8.
  EXPECT_THAT(ImproveSlots({.widths = widths}, costs, {.tokens = 100}, 1, {0, 4, 6}, 1000),
              ElementsAre(0, 3, 6));
  EXPECT_THAT(ImproveSlots({.widths = widths}, costs, {.tokens = 100}, 1, {0, 4, 6}, 0),
              ElementsAre(0, 4, 6));
}

TEST(SlotsTest, LimitsAreKeptAndTheSumNeverRises) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const RandomItems items(random, 100);
    const std::vector<uint64_t> costs = testing::CostsOf(items, random.Between(0, 3));
    const size_t fewest = SortedScan(items.view(), items.limits).size() - 1;
    const auto ranks = static_cast<uint32_t>(random.Between(1, 6));
    const size_t runs = (fewest + ranks - 1) / ranks * ranks;
    if (runs > items.widths.size()) continue;
    const Cuts start = LevelSplit(items.view(), costs, items.limits, runs);
    const auto improve = [&] {
      return ImproveSlots(items.view(), costs, items.limits, ranks, start, 100'000);
    };
    const Cuts cuts = improve();
    ASSERT_EQ(cuts.size(), start.size()) << "seed " << seed;
    ASSERT_TRUE(IsSplit(cuts, items.view(), items.limits)) << "seed " << seed;
    ASSERT_LE(LockstepCost(RunCosts(items.view(), costs, cuts), ranks),
              LockstepCost(RunCosts(items.view(), costs, start), ranks))
        << "seed " << seed;
    ASSERT_EQ(cuts, improve()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace batchplan
