#include "server/planner/packing/shuffle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Computed apart, from the definitions of MT19937-64 and Lemire's method.
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
