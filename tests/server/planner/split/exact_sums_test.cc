#include "server/planner/split/exact_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(ExactSumsTest, TakesTheFirstWhereTheyAddUp) {
  EXPECT_THAT(UnitsThatAddUp(std::vector<uint32_t>{3, 2, 4}, 5, 0, {}),
              Optional(ElementsAre(0, 1)));
  EXPECT_THAT(UnitsThatAddUp(std::vector<uint32_t>{3, 2}, 0, 0, {}), Optional(ElementsAre()));
}

TEST(ExactSumsTest, PassesAsFewAsItCan) {
  EXPECT_THAT(UnitsThatAddUp(std::vector<uint32_t>{4, 4, 1, 1, 2}, 6, 2, {}),
              Optional(ElementsAre(0, 4)));
  EXPECT_EQ(UnitsThatAddUp(std::vector<uint32_t>{4, 4, 1, 1}, 6, 1, {}), std::nullopt);
}

// Whether some subset adds up that passes nobody by more than so many.
bool Possible(const std::vector<uint32_t>& sizes, uint64_t sum, uint32_t max_overtaking) {
  for (uint32_t subset = 0; subset < (1U << sizes.size()); ++subset) {
    uint64_t total = 0;
    bool fair = true;
    for (uint32_t i = 0; i < sizes.size(); ++i) {
      if ((subset >> i & 1) != 0) {
        total += sizes[i];
      } else {
        fair = fair && static_cast<uint32_t>(std::popcount(subset >> i)) <= max_overtaking;
      }
    }
    if (fair && total == sum) return true;
  }
  return false;
}

TEST(ExactSumsTest, FindsUnitsWheneverThereAreSome) {
  uint64_t found = 0;
  const uint64_t cases = testing::Cases(3000);
  for (const uint64_t seed : testing::Seeds(3000)) {
    testing::RandomStream random(seed);
    std::vector<uint32_t> sizes(random.Between(0, 9));
    for (uint32_t& size : sizes) size = static_cast<uint32_t>(random.Between(1, 6));
    const uint64_t sum = random.Between(0, 20);
    const auto max_overtaking =
        random.Chance(10) ? UINT32_MAX : static_cast<uint32_t>(random.Between(0, 5));
    const auto units = UnitsThatAddUp(sizes, sum, max_overtaking, {});
    ASSERT_EQ(units.has_value(), Possible(sizes, sum, max_overtaking)) << "seed " << seed;
    if (!units) continue;
    ++found;
    uint64_t total = 0;
    uint32_t subset = 0;
    for (const uint32_t unit : *units) {
      total += sizes[unit];
      subset |= 1U << unit;
    }
    EXPECT_EQ(total, sum) << "seed " << seed;
    for (uint32_t i = 0; i < sizes.size(); ++i) {
      if ((subset >> i & 1) != 0) continue;
      EXPECT_LE(static_cast<uint32_t>(std::popcount(subset >> i)), max_overtaking)
          << "seed " << seed;
    }
  }
  EXPECT_GT(found, cases / 10);
}

TEST(ExactSumsTest, EndsOnceItIsStopped) {
  // Even sizes never add up to an odd number, which all the sums have to tell.
  std::vector<uint32_t> sizes(3000);
  for (uint32_t i = 0; i < sizes.size(); ++i) sizes[i] = 2 * i + 2;
  EXPECT_EQ(UnitsThatAddUp(sizes, 1'000'003, 1000, {}), std::nullopt);
  std::ranges::fill(sizes, 2U);
  sizes.push_back(3);
  const auto units = UnitsThatAddUp(sizes, 1'003, 1, {});
  ASSERT_TRUE(units.has_value());
  EXPECT_EQ(units->back(), 3000u);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(UnitsThatAddUp(sizes, 1'003, 1, Allowance(stop.get_token())), std::nullopt);
}

}  // namespace
}  // namespace batchplan
