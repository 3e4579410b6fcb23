#include "server/planner/padded/level_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "server/planner/padded/sorted_scan.h"
#include "tests/server/planner/padded/random_items.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using testing::IsSplit;
using testing::RandomItems;
using testing::RandomStream;

TEST(LevelSplitTest, WideSequencesStandAlone) {
  const std::vector<uint32_t> widths = {1, 1, 1, 1, 4, 8};
  const std::vector<uint64_t> costs(widths.begin(), widths.end());
  const PaddedItems items = {.widths = widths};
  EXPECT_THAT(LevelSplit(items, costs, {.tokens = 100}, 3), ElementsAre(0, 4, 5, 6));
  EXPECT_THAT(RunCosts(items, costs, {0, 4, 5, 6}), ElementsAre(4, 4, 8));
  EXPECT_THAT(LevelSplit(items, costs, {.tokens = 100}, 1), ElementsAre(0, 6));
  EXPECT_THAT(LevelSplit(items, costs, {.tokens = 100}, 6), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(LevelSplitTest, NoItemsAndItemsThatCostNothing) {
  EXPECT_THAT(LevelSplit({}, {}, {.tokens = 1}, 1), ElementsAre(0));
  const std::vector<uint32_t> widths = {1, 2, 3};
  const std::vector<uint64_t> costs(3, 0);
  EXPECT_EQ(LevelSplit({.widths = widths}, costs, {.tokens = 3}, 3).size(), 4);
}

TEST(LevelSplitTest, TheCostliestRunIsTheCheapestOfAllSplitsIntoAsManyRuns) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const RandomItems items(random, 11);
    const std::vector<uint64_t> costs = testing::CostsOf(items, random.Between(0, 3));
    std::vector<uint64_t> least(items.widths.size() + 1, std::numeric_limits<uint64_t>::max());
    for (const Cuts& cuts : testing::AllSplits(items.view(), items.limits)) {
      uint64_t& best = least[cuts.size() - 1];
      best = std::min(best, std::ranges::max(RunCosts(items.view(), costs, cuts)));
    }
    const size_t fewest = SortedScan(items.view(), items.limits).size() - 1;
    for (size_t runs = fewest; runs <= items.widths.size(); ++runs) {
      const Cuts cuts = LevelSplit(items.view(), costs, items.limits, runs);
      ASSERT_EQ(cuts.size(), runs + 1) << "seed " << seed;
      ASSERT_TRUE(IsSplit(cuts, items.view(), items.limits)) << "seed " << seed;
      ASSERT_EQ(std::ranges::max(RunCosts(items.view(), costs, cuts)), least[runs])
          << "seed " << seed << " runs " << runs;
    }
  }
}

}  // namespace
}  // namespace batchplan
