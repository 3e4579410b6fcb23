#include "server/planner/partition/descending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

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
    for (uint64_t& load : loads) load = random.Between(0, most);
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

}  // namespace
}  // namespace batchplan
