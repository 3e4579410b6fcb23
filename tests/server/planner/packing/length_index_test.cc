#include "server/planner/packing/length_index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "server/planner/packing/decreasing.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

TEST(LengthIndexTest, FindsTheLongestUpToWithATableOfAnySize) {
  for (const uint64_t seed : testing::Seeds(500)) {
    testing::RandomStream random(seed);
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
