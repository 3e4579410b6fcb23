#include "server/planner/fewest_bins/column_generation.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <stop_token>
#include <vector>

#include "server/planner/fewest_bins/kinds.h"
#include "tests/server/planner/fewest_bins/expect_packed.h"
#include "tests/support/brute_force.h"
#include "tests/support/classic_instances.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;

TEST(ColumnGenerationTest, TheBoundNeverExceedsTheOptimum) {
  RandomStream random(testing::Seed(1));
  for (uint64_t i = 0; i < testing::Cases(3000); ++i) {
    const auto capacity = static_cast<uint32_t>(random.Between(1, 60));
    std::vector<uint32_t> lengths(random.Between(1, 10));
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(1, capacity));
    const Kinds kinds = KindsOf(lengths, capacity);
    const uint64_t optimum = testing::BruteForceMinBins(lengths, capacity);
    uint64_t steps = i % 2 == 0 ? 10'000'000 : random.Between(1, 5000);
    const GeneratedBins generated = GenerateColumns(kinds, 0, lengths.size() + 1, steps);
    ASSERT_LE(generated.bound, optimum);
    if (generated.bins) {
      ExpectPacked(*generated.bins, kinds);
      ASSERT_GE(generated.bins->size(), optimum);
    }
  }
}

TEST(ColumnGenerationTest, ProvesWhatItPacksToBeOptimal) {
  const testing::ClassicInstance instance = testing::ClassicShapes().front().make(1);
  const Kinds kinds = KindsOf(instance.lengths, instance.capacity);
  uint64_t steps = 100'000'000;
  const GeneratedBins generated = GenerateColumns(kinds, 0, instance.lengths.size(), steps);
  ASSERT_TRUE(generated.bins.has_value());
  ExpectPacked(*generated.bins, kinds);
  EXPECT_EQ(generated.bins->size(), generated.bound);
}

TEST(ColumnGenerationTest, PacksTripletsIntoFullBins) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Kinds kinds = KindsOf(testing::TripletLengths(30, seed, 1000), 1000);
    uint64_t steps = 300'000'000;
    const GeneratedBins generated = GenerateColumns(kinds, 30, 33, steps);
    ASSERT_TRUE(generated.bins.has_value());
    ExpectPacked(*generated.bins, kinds);
    EXPECT_EQ(generated.bins->size(), 30);
    EXPECT_LE(generated.bound, 30);
  }
}

TEST(ColumnGenerationTest, EndsWithinItsSteps) {
  const Kinds kinds = KindsOf(testing::TripletLengths(60, 1, 1000), 1000);
  for (const uint64_t allowed : {1'000, 100'000, 5'000'000}) {
    uint64_t steps = allowed;
    const GeneratedBins generated = GenerateColumns(kinds, 0, 66, steps);
    EXPECT_LE(generated.bound, 60);
    EXPECT_LE(steps, allowed);
    if (generated.bins) ExpectPacked(*generated.bins, kinds);
  }
}

TEST(ColumnGenerationTest, TakesNoStepsOnceStopped) {
  std::stop_source source;
  source.request_stop();
  const Kinds kinds = KindsOf(testing::TripletLengths(60, 1, 1000), 1000);
  constexpr uint64_t kAllowed = 5'000'000;
  uint64_t steps = kAllowed;
  const GeneratedBins generated = GenerateColumns(kinds, 0, 66, steps, source.get_token());
  EXPECT_FALSE(generated.bins.has_value());
  EXPECT_LE(generated.bound, 60);
  EXPECT_GE(steps, kAllowed - kAllowed / 10);
}

}  // namespace
}  // namespace batchplan
