#include "server/planner/packing/column_generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "server/planner/packing/kinds.h"
#include "tests/server/planner/packing/expect_packed.h"
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

uint64_t BestByEnumeration(const Kinds& kinds, const std::vector<uint64_t>& values, size_t kind,
                           uint32_t room) {
  if (kind == kinds.size()) return 0;
  uint64_t best = 0;
  for (uint32_t times = 0; times <= kinds.demand[kind]; ++times) {
    if (uint64_t{times} * kinds.lengths[kind] > room) break;
    const uint32_t rest = room - times * kinds.lengths[kind];
    best = std::max(best, times * values[kind] + BestByEnumeration(kinds, values, kind + 1, rest));
  }
  return best;
}

TEST(BoundedKnapsackTest, IsWorthTheMost) {
  RandomStream random(testing::Seed(1));
  for (uint64_t i = 0; i < testing::Cases(3000); ++i) {
    const auto capacity = static_cast<uint32_t>(random.Between(1, 60));
    std::vector<uint32_t> lengths(random.Between(1, 9));
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(1, capacity));
    const Kinds kinds = KindsOf(lengths, capacity);
    std::vector<uint64_t> values(kinds.size());
    // Some times in proportion to the length, which is hardest.
    const bool proportional = random.Chance(50);
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      values[kind] = proportional ? 7 * kinds.lengths[kind] : random.Between(0, 100);
    }
    const uint64_t optimum = BestByEnumeration(kinds, values, 0, capacity);
    for (const uint64_t allowed : {uint64_t{1'000'000}, random.Between(1, 200)}) {
      uint64_t steps = allowed;
      const KnapsackFill fill = FillKnapsack(kinds, kinds.demand, values, 0, steps);
      ASSERT_GE(fill.at_most, optimum);
      if (allowed == 1'000'000) {
        ASSERT_EQ(fill.value, optimum);
      }
      std::vector<uint32_t> left = kinds.demand;
      uint64_t tokens = 0;
      uint64_t value = 0;
      for (uint32_t kind : fill.kinds) {
        ASSERT_GT(left[kind]--, 0);
        tokens += kinds.lengths[kind];
        value += values[kind];
      }
      ASSERT_LE(tokens, capacity);
      ASSERT_EQ(value, fill.value);
    }
    uint64_t steps = 1'000'000;
    const KnapsackFill none = FillKnapsack(kinds, kinds.demand, values, optimum, steps);
    ASSERT_TRUE(none.kinds.empty());
    ASSERT_EQ(none.at_most, optimum);
  }
}

}  // namespace
}  // namespace batchplan
