#include "server/planner/packing/orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "server/planner/request/seeds.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DescendingTest, EqualLoadsAreInOrderOrInReverse) {
  const std::vector<uint64_t> loads = {5, 9, 5, 9, 0};
  EXPECT_THAT(DescendingOrder(loads), ElementsAre(1, 3, 0, 2, 4));
  EXPECT_THAT(DescendingLaterFirst(loads), ElementsAre(3, 1, 2, 0, 4));
  EXPECT_THAT(DescendingOrder({}), IsEmpty());
}

TEST(DescendingTest, LoadsOfAnyMagnitudeAreSortedStably) {
  for (const uint64_t seed : testing::Seeds(600)) {
    testing::RandomStream random(seed);
    const uint64_t most = random.OneOf<uint64_t>({0, 1, 1000, 1u << 31, ~uint64_t{0} >> 1});
    std::vector<uint64_t> loads(random.Between(0, random.Chance(10) ? 5000 : 300));
    // Large ones also alike in all but their lowest bits.
    const uint64_t least = random.Chance(30) ? uint64_t{1} << 63 : 0;
    for (uint64_t& load : loads) load = least + random.Between(0, most);
    std::vector<uint32_t> expected(loads.size());
    std::iota(expected.begin(), expected.end(), 0u);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](uint32_t a, uint32_t b) { return loads[a] > loads[b]; });
    ASSERT_EQ(DescendingOrder(loads), expected) << "seed " << seed;

    std::iota(expected.rbegin(), expected.rend(), 0u);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](uint32_t a, uint32_t b) { return loads[a] > loads[b]; });
    ASSERT_EQ(DescendingLaterFirst(loads), expected) << "seed " << seed;
  }
}

// Computed independently, from the definitions of MT19937-64 and Lemire's method.
TEST(ShuffleTest, IsTheSameEverywhere) {
  EXPECT_THAT(ShuffledOrder(8, 42), ElementsAre(2, 1, 5, 3, 0, 7, 4, 6));
}

TEST(ShuffleTest, HoldsEveryNumberOnce) {
  std::vector<uint32_t> order = ShuffledOrder(1000, 3);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
  EXPECT_THAT(ShuffledOrder(0, 3), IsEmpty());
  EXPECT_THAT(ShuffledOrder(1, 3), ElementsAre(0));
}

TEST(ShuffleTest, EveryOrderOfThreeIsAboutAsLikely) {
  std::map<std::vector<uint32_t>, int> counts;
  for (uint64_t seed = 0; seed < 6000; ++seed) ++counts[ShuffledOrder(3, MixSeed(seed, 1))];
  EXPECT_EQ(counts.size(), 6);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(ShuffleTest, StreamsOfOneSeedDiffer) {
  std::set<uint64_t> seeds;
  for (uint64_t stream = 0; stream < 1000; ++stream) seeds.insert(MixSeed(7, stream));
  EXPECT_EQ(seeds.size(), 1000);
}

}  // namespace
}  // namespace batchplan
