#include "server/planner/partition/part_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/server/planner/partition/partitions.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

TEST(LargestSumBoundTest, TakesTheBestOfItsArguments) {
  EXPECT_EQ(LargestSumBound({}, 3), 0);
  EXPECT_EQ(LargestSumBound(std::vector<uint64_t>{5, 4, 2}, 2), 6);  // the mean
  EXPECT_EQ(LargestSumBound(std::vector<uint64_t>{9, 1, 1}, 2), 9);  // the costliest
  EXPECT_EQ(LargestSumBound(std::vector<uint64_t>{9, 1, 1, 1}, 2, 2), 10);
  EXPECT_EQ(LargestSumBound(std::vector<uint64_t>{6, 6, 6, 1}, 2), 12);  // two of three share
  EXPECT_EQ(LargestSumBound(std::vector<uint64_t>{5, 5, 5, 5, 5, 0}, 2), 15);
}

TEST(LargestSumBoundTest, NoPartitionIsBelow) {
  for (const uint64_t seed : testing::Seeds(500)) {
    testing::RandomStream random(seed);
    const auto parts = static_cast<uint32_t>(random.Between(1, 4));
    std::vector<uint64_t> loads = testing::MixedLoads(random, random.Between(1, 7));
    std::sort(loads.begin(), loads.end(), std::greater<>());
    const uint64_t least_each = random.Between(0, loads.size() / parts);
    const auto legal = [&](const std::vector<uint32_t>& part_of) {
      return std::ranges::min(testing::CountsOf(part_of, parts)) >= least_each;
    };
    ASSERT_LE(LargestSumBound(loads, parts, least_each),
              testing::LeastLargestSum(loads, parts, legal))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace batchplan
