#include "server/planner/fewest_bins/pack_into.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/server/planner/fewest_bins/expect_packed.h"
#include "tests/support/brute_force.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;

TEST(PackIntoTest, IsExactForAFewItems) {
  RandomStream random(testing::Seed(1));
  for (uint64_t i = 0; i < testing::Cases(3000); ++i) {
    const BinLimits limits{.capacity = static_cast<uint32_t>(random.Between(1, 40)),
                           .max_sequences = static_cast<uint32_t>(random.Between(1, 5))};
    std::vector<uint32_t> lengths(random.Between(1, 9));
    for (uint32_t& length : lengths) {
      length = static_cast<uint32_t>(random.Between(1, limits.capacity));
    }
    const size_t optimum =
        testing::BruteForceMinBins(lengths, limits.capacity, limits.max_sequences);
    const auto bins = PackInto({.lengths = lengths}, limits, optimum, Effort::kDefault);
    ASSERT_TRUE(bins.has_value());
    ASSERT_LE(bins->size(), optimum);
    ExpectPacked(*bins, {.lengths = lengths}, limits);
    ASSERT_FALSE(PackInto({.lengths = lengths}, limits, optimum - 1, Effort::kDefault).has_value());
  }
}

TEST(PackIntoTest, FastAsksTheGreedyPackersOnly) {
  const std::vector<uint32_t> lengths = testing::TripletLengths(30, 1, 1000);
  const BinLimits limits{.capacity = 1000};
  EXPECT_FALSE(PackInto({.lengths = lengths}, limits, 30, Effort::kFast).has_value());
  EXPECT_TRUE(PackInto({.lengths = lengths}, limits, 30, Effort::kDefault).has_value());
  EXPECT_TRUE(PackInto({.lengths = lengths}, limits, 45, Effort::kFast).has_value());
}

}  // namespace
}  // namespace batchplan
