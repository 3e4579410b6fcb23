#include "server/planner/partition/descending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DescendingOrderTest, EqualLoadsStayByPosition) {
  const std::vector<uint64_t> loads = {3, 9, 3, 0, 9};
  EXPECT_THAT(DescendingOrder(loads), ElementsAre(1, 4, 0, 2, 3));
  EXPECT_THAT(DescendingOrder({}), IsEmpty());
}

TEST(DescendingOrderTest, IsTheSortedOrderHoweverManyAndHoweverLarge) {
  for (uint64_t seed = 0; seed < testing::Cases(60); ++seed) {
    testing::RandomStream random(seed);
    std::vector<uint64_t> loads(random.OneOf<size_t>({1, 100, 2047, 2048, 5000}));
    const uint64_t least = random.OneOf<uint64_t>({0, 7, uint64_t{1} << 60});
    const uint64_t most = random.OneOf<uint64_t>(
        {least, least + 1, least + 3000, least * 2, std::numeric_limits<uint64_t>::max()});
    for (uint64_t& load : loads) load = random.Between(least, most);
    std::vector<uint32_t> expected(loads.size());
    std::iota(expected.begin(), expected.end(), 0u);
    std::sort(expected.begin(), expected.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(loads[b], a) < std::tuple(loads[a], b);
    });
    ASSERT_EQ(DescendingOrder(loads), expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace batchplan
