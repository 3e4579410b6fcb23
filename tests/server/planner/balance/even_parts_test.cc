#include "server/planner/balance/even_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <utility>
#include <vector>

#include "tests/server/planner/balance/partitions.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::CountsOf;
using ::testing::Each;
using ::testing::IsEmpty;
using testing::LargestSum;
using testing::RandomStream;

uint64_t Bound(std::vector<uint64_t> loads, uint32_t parts, const EvenPartsOptions& options) {
  std::sort(loads.begin(), loads.end(), std::greater<>());
  return LargestSumBound(loads, parts,
                         options.equal_counts ? loads.size() / parts : options.least_each);
}

bool IsLegal(const std::vector<uint32_t>& part_of, uint32_t parts,
             const EvenPartsOptions& options) {
  const std::vector<uint64_t> counts = CountsOf(part_of, parts);
  const uint64_t fewest = *std::min_element(counts.begin(), counts.end());
  if (options.equal_counts) {
    const uint64_t most = *std::max_element(counts.begin(), counts.end());
    return fewest == part_of.size() / parts && most == (part_of.size() + parts - 1) / parts;
  }
  return fewest >= options.least_each;
}

EvenPartsOptions RandomOptions(RandomStream& random, size_t size, uint32_t parts) {
  EvenPartsOptions options;
  options.equal_counts = random.Chance(50);
  options.least_each = static_cast<uint32_t>(random.Between(0, size / parts));
  options.effort = random.OneOf<Effort>({Effort::kFast, Effort::kDefault, Effort::kThorough});
  return options;
}

TEST(EvenPartsTest, ThoroughFindsTheOptimumOfSmallInstances) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const auto parts = static_cast<uint32_t>(random.Between(1, 4));
    const size_t size = random.Chance(50) ? random.Between(1, 7) : parts * random.Between(1, 2);
    const std::vector<uint64_t> loads = testing::MixedLoads(random, size);
    EvenPartsOptions options = RandomOptions(random, size, parts);
    options.effort = Effort::kThorough;
    const uint64_t least = testing::LeastLargestSum(
        loads, parts, [&](const auto& part_of) { return IsLegal(part_of, parts, options); });
    const std::vector<uint32_t> part_of = EvenParts(loads, parts, options);
    ASSERT_TRUE(IsLegal(part_of, parts, options)) << "seed " << seed;
    ASSERT_EQ(LargestSum(loads, part_of, parts), least) << "seed " << seed;
  }
}

TEST(EvenPartsTest, EveryPartitionIsLegalAndTheSameEveryTime) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const auto parts = static_cast<uint32_t>(random.Between(1, 30));
    const size_t size = random.Chance(50) ? random.Between(0, 300) : parts * random.Between(1, 10);
    const std::vector<uint64_t> loads = testing::MixedLoads(random, size);
    EvenPartsOptions options = RandomOptions(random, size, parts);
    if (options.effort == Effort::kThorough) options.effort = Effort::kDefault;
    const std::vector<uint32_t> part_of = EvenParts(loads, parts, options);
    ASSERT_EQ(part_of.size(), size);
    ASSERT_TRUE(IsLegal(part_of, parts, options)) << "seed " << seed;
    ASSERT_EQ(part_of, EvenParts(loads, parts, options)) << "seed " << seed;
  }
}

TEST(EvenPartsTest, TrainingBatchesMeetTheBound) {
  using Generator = std::vector<uint32_t> (*)(size_t, uint64_t);
  for (const Generator lengths_of :
       {Generator{testing::MathsLengths}, Generator{testing::ZipfLengths},
        Generator{testing::LongCotLengths}}) {
    for (const auto& [size, parts] : {std::pair<size_t, uint32_t>{256, 8}, {2048, 64}}) {
      for (uint64_t seed = 0; seed < 5; ++seed) {
        std::vector<uint64_t> loads;
        for (const uint64_t length : lengths_of(size, seed)) {
          loads.push_back(24576 * length + length * length);
        }
        for (const bool equal_counts : {false, true}) {
          const EvenPartsOptions options = {.equal_counts = equal_counts};
          const uint64_t bound = Bound(loads, parts, options);
          ASSERT_LE(LargestSum(loads, EvenParts(loads, parts, options), parts),
                    bound + bound / 1000)
              << size << " on " << parts << ", seed " << seed;
        }
      }
    }
  }
}

TEST(EvenPartsTest, LoadsThatAreAlikeAreSpreadEvenly) {
  for (const uint64_t load : {0, 12}) {
    for (const bool equal_counts : {false, true}) {
      const std::vector<uint64_t> loads(350, load);
      EXPECT_THAT(CountsOf(EvenParts(loads, 7, {.equal_counts = equal_counts}), 7), Each(50));
    }
  }
}

TEST(EvenPartsTest, OneGiantSharesWithNoMoreThanItMust) {
  std::vector<uint64_t> loads(64, 1);
  loads[40] = 1000;
  EXPECT_EQ(LargestSum(loads, EvenParts(loads, 8, {}), 8), 1000);
  EXPECT_EQ(LargestSum(loads, EvenParts(loads, 8, {.least_each = 5}), 8), 1004);
  EXPECT_EQ(LargestSum(loads, EvenParts(loads, 8, {.equal_counts = true}), 8), 1007);
}

TEST(EvenPartsTest, MorePartsThanLoadsAndNoLoads) {
  EXPECT_THAT(EvenParts({}, 4, {}), IsEmpty());
  const std::vector<uint64_t> loads = {5, 6};
  EXPECT_EQ(LargestSum(loads, EvenParts(loads, 9, {}), 9), 6);
}

TEST(EvenPartsTest, AStoppedSearchIsLegal) {
  std::stop_source source;
  source.request_stop();
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    const auto parts = static_cast<uint32_t>(random.Between(1, 10));
    const size_t size = parts * random.Between(1, 20);
    const std::vector<uint64_t> loads = testing::MixedLoads(random, size);
    EvenPartsOptions options = RandomOptions(random, size, parts);
    options.allowance = source.get_token();
    ASSERT_TRUE(IsLegal(EvenParts(loads, parts, options), parts, options)) << "seed " << seed;
  }
}

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
