#include "server/planner/packing/kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using testing::RandomStream;

TEST(DecreasingTest, AmongEqualLengthsTheHigherPositionGoesFirst) {
  EXPECT_THAT(DecreasingOrder(std::vector<uint32_t>{4, 7, 4, 7}), ElementsAre(3, 1, 2, 0));
}

TEST(DecreasingTest, SortsAsStdSortDoesWhateverTheRangeOfLengths) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const uint64_t longest =
        random.OneOf<uint64_t>({1, 40, 1000, 16384, 1 << 20, std::numeric_limits<uint32_t>::max()});
    std::vector<uint32_t> lengths(random.Between(0, 600));
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(0, longest));
    std::vector<uint32_t> expected(lengths.size());
    std::iota(expected.begin(), expected.end(), 0u);
    std::sort(expected.begin(), expected.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(lengths[a], a) > std::pair(lengths[b], b);
    });
    std::map<uint32_t, uint32_t> counts;
    for (uint32_t length : lengths) ++counts[length];

    const DecreasingItems sorted = SortDecreasing(lengths);
    ASSERT_EQ(sorted.order, expected) << "seed " << seed;
    std::vector<LengthCount> expected_lengths;
    for (auto count = counts.rbegin(); count != counts.rend(); ++count) {
      expected_lengths.push_back({.length = count->first, .count = count->second});
    }
    ASSERT_EQ(sorted.lengths, expected_lengths) << "seed " << seed;
  }
}

TEST(LengthIndexTest, FindsTheLongestUpToWithATableOfAnySize) {
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    const uint64_t longest =
        random.OneOf<uint64_t>({1, 50, 1000, std::numeric_limits<uint32_t>::max()});
    std::vector<uint32_t> lengths(random.Between(1, 80));
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(1, longest));
    const DecreasingItems items = SortDecreasing(lengths);
    const LengthIndex index(items.lengths, random.Between(1, 2000));
    for (int i = 0; i < 100; ++i) {
      const auto tokens = static_cast<uint32_t>(
          random.Chance(50) ? random.OneOf(lengths) - random.Between(0, 1)
                            : random.Between(0, std::numeric_limits<uint32_t>::max()));
      size_t expected = 0;
      while (expected < items.lengths.size() && items.lengths[expected].length > tokens) ++expected;
      ASSERT_EQ(index.UpTo(tokens), expected) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace batchplan
