#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/packing/packer.h"
#include "tests/support/brute_force.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using testing::RandomStream;

constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();

std::vector<std::vector<uint32_t>> ItemsIn(const Bins& bins) {
  std::vector<std::vector<uint32_t>> items;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    items.emplace_back(bins[bin].begin(), bins[bin].end());
  }
  return items;
}

void ExpectNaive(const std::vector<uint32_t>& lengths, const BinLimits& limits,
                 const std::string& where) {
  ASSERT_EQ(ItemsIn(PackFirstFitDecreasing({.lengths = lengths}, limits)),
            testing::NaiveFirstFitDecreasing(lengths, limits.capacity, limits.max_sequences))
      << where;
  ASSERT_EQ(ItemsIn(PackBestFitDecreasing({.lengths = lengths}, limits)),
            testing::NaiveBestFitDecreasing(lengths, limits.capacity, limits.max_sequences))
      << where;
}

TEST(DecreasingPackersTest, NothingAndOneItem) {
  for (const uint32_t capacity : {uint32_t{1}, uint32_t{8}, kMost}) {
    ExpectNaive({}, {.capacity = capacity}, "nothing");
    ExpectNaive({1}, {.capacity = capacity}, "one token");
    ExpectNaive({capacity}, {.capacity = capacity}, "a full bin");
    ExpectNaive({capacity}, {.capacity = capacity, .max_sequences = 1}, "a full bin of one");
  }
}

TEST(DecreasingPackersTest, EqualLengthsFillBinAfterBin) {
  for (const uint32_t length : {1u, 3u, 4u, 5u, 10u}) {
    for (const uint32_t max_sequences : {1u, 2u, 3u, kMost}) {
      ExpectNaive(std::vector<uint32_t>(137, length),
                  {.capacity = 10, .max_sequences = max_sequences}, std::to_string(length));
    }
  }
}

TEST(DecreasingPackersTest, APartlyFilledRunIsSplit) {
  // Four bins have room for 4. Two get two 2s each, and one gets one, which leaves room for the 1.
  const std::vector<uint32_t> lengths = {6, 6, 6, 6, 2, 2, 2, 2, 2, 1};
  const Bins bins = PackFirstFitDecreasing({.lengths = lengths}, {.capacity = 10});
  EXPECT_THAT(ItemsIn(bins), ElementsAre(ElementsAre(3, 8, 7), ElementsAre(2, 6, 5),
                                         ElementsAre(1, 4, 9), ElementsAre(0)));
}

TEST(DecreasingPackersTest, FirstAndBestFitAreTheNaiveOnesOnRandomLengths) {
  for (const uint64_t seed : testing::Seeds(6000)) {
    RandomStream random(seed);
    BinLimits limits;
    limits.capacity = random.OneOf<uint32_t>(
        {static_cast<uint32_t>(random.Between(1, 60)), 1000, 16384, 1 << 20, kMost});
    if (random.Chance(50)) limits.max_sequences = static_cast<uint32_t>(random.Between(1, 5));
    // Few different lengths make long runs, many lengths make short ones.
    const uint64_t range = random.OneOf<uint64_t>({3, 20, limits.capacity});
    const uint64_t least = random.Between(1, limits.capacity);
    std::vector<uint32_t> lengths(random.Between(0, random.Chance(5) ? 2000 : 150));
    for (uint32_t& length : lengths) {
      length = static_cast<uint32_t>(
          std::min<uint64_t>(limits.capacity, least + random.Between(0, range)));
      if (random.Chance(60)) length = static_cast<uint32_t>(random.Between(1, least));
      if (random.Chance(20)) length = 1 + length / 16;
    }
    ASSERT_NO_FATAL_FAILURE(ExpectNaive(lengths, limits, "seed " + std::to_string(seed)));
  }
}

TEST(DecreasingPackersTest, FirstAndBestFitAreTheNaiveOnesOnBatchesOfEveryShape) {
  for (const uint64_t seed : testing::Seeds(20)) {
    const std::string where = "seed " + std::to_string(seed);
    const size_t count = 500 + 100 * (seed % 20);
    ExpectNaive(testing::MathsLengths(count, seed), {.capacity = 16384}, where);
    ExpectNaive(testing::LongCotLengths(count, seed), {.capacity = 65536}, where);
    ExpectNaive(testing::ZipfLengths(count, seed), {.capacity = 8192}, where);
    ExpectNaive(testing::AgenticLengths(count, seed), {.capacity = 32768}, where);
    ExpectNaive(testing::UniformLengths(count, seed, 16384), {.capacity = 16384}, where);
    ExpectNaive(testing::TripletLengths(count, seed, 1000), {.capacity = 1000}, where);
    ExpectNaive(testing::ZipfLengths(count, seed), {.capacity = 8192, .max_sequences = 4}, where);
  }
}

}  // namespace
}  // namespace batchplan
