#include "server/planner/packing/lower_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "server/planner/packing/kinds.h"
#include "tests/support/brute_force.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

TEST(LowerBoundsTest, TheVolumeBoundRoundsUp) {
  EXPECT_EQ(VolumeBound(std::vector<uint32_t>{5, 5, 1}, 10), 2);
  EXPECT_EQ(VolumeBound({}, 10), 0);
}

TEST(LowerBoundsTest, L2CountsItemsThatCannotShareABin) {
  // Volume says 4 of 10; no two sevens go together.
  EXPECT_EQ(MartelloTothL2(std::vector<uint32_t>{7, 7, 7, 7, 7}, 10), 5);
}

TEST(LowerBoundsTest, L2SeesThatSmallItemsDoNotFitBesideLargeOnes) {
  // A six leaves 4, which no five can use: 2 bins for the sixes, 2 for the fives.
  EXPECT_EQ(MartelloTothL2(std::vector<uint32_t>{6, 6, 5, 5, 5}, 10), 4);
}

TEST(LowerBoundsTest, L2SeesAgenticBatchesAsTheyAre) {
  // Of 24k and 9k in 32k: by volume three bins might do, but no bin with a long one has room for a
  // short one.
  EXPECT_EQ(MartelloTothL2(std::vector<uint32_t>{24000, 24000, 9000, 9000, 9000}, 32000), 3);
  EXPECT_EQ(VolumeBound(std::vector<uint32_t>{24000, 24000, 9000, 9000, 9000}, 32000), 3);
}

TEST(LowerBoundsTest, ASequenceLimitBoundsToo) {
  const std::vector<uint32_t> ten(10, 1);
  EXPECT_EQ(LowerBoundBins({.lengths = ten}, {.capacity = 100, .max_sequences = 3}), 4);
}

TEST(LowerBoundsTest, DualFeasibleFunctionsSeeThatThirdsDoNotFill) {
  // Three of C/4 .. C/2 rarely fill a bin: volume and L2 give 750, and 796 are needed.
  const std::vector<uint32_t> lengths = testing::UniformLengths(2046, 1, 32768);
  EXPECT_GT(LowerBoundBins({.lengths = lengths}, {.capacity = 32768}),
            MartelloTothL2(lengths, 32768) + 20);
}

TEST(LowerBoundsTest, GroupsThatCannotShareABinAreCounted) {
  const std::vector<uint32_t> lengths(7, 1);
  const std::vector<uint32_t> counts(7, 5);
  EXPECT_EQ(
      LowerBoundBins({.lengths = lengths, .counts = counts}, {.capacity = 100, .max_sequences = 8}),
      7);
}

TEST(LowerBoundsTest, NeverExceedAPerfectPacking) {
  for (const uint64_t seed : testing::Seeds(300)) {
    testing::RandomStream random(seed);
    const auto capacity = static_cast<uint32_t>(random.Between(1, 1'000'000'000));
    const uint64_t bins = random.Between(1, 50);
    std::vector<uint32_t> lengths;
    for (uint64_t bin = 0; bin < bins; ++bin) {
      for (uint32_t room = capacity; room > 0; room -= lengths.back()) {
        lengths.push_back(static_cast<uint32_t>(random.Between(room / 4 + 1, room)));
      }
    }
    ASSERT_EQ(LowerBoundBins({.lengths = lengths}, {.capacity = capacity}), bins);
  }
}

TEST(LowerBoundsTest, DualFeasibleFunctionsAreSuperadditive) {
  for (uint32_t capacity = 1; capacity <= 60; ++capacity) {
    for (uint32_t period = 1; period <= capacity; ++period) {
      const DualFeasible value(period, capacity);
      for (uint32_t a = 0; a <= capacity; ++a) {
        for (uint32_t b = 0; a + b <= capacity; ++b) {
          ASSERT_LE(value(a) + value(b), value(a + b)) << period << " of " << capacity;
        }
      }
    }
  }
}

// The same bound, computed item by item for an instance so small that no period is left out.
uint64_t PlainDualFeasibleBound(const std::vector<uint32_t>& lengths, uint32_t capacity) {
  std::set<uint32_t> periods(lengths.begin(), lengths.end());
  for (const uint32_t length : lengths) {
    if (length < capacity) periods.insert(capacity - length);
  }
  std::set<uint32_t> thresholds = {0};
  for (const uint32_t length : lengths) {
    if (length <= capacity / 2) thresholds.insert(length);
  }
  uint64_t best = 0;
  for (const uint32_t threshold : thresholds) {
    std::set<uint32_t> tried = periods;
    for (uint64_t twelfth = 1; threshold == 0 && twelfth <= 12; ++twelfth) {
      if (const auto part = static_cast<uint32_t>(capacity * twelfth / 12)) tried.insert(part);
    }
    for (const uint32_t period : tried) {
      const DualFeasible value(period, capacity);
      uint64_t alone = 0;
      uint64_t sum = 0;
      for (const uint32_t length : lengths) {
        if (length > capacity - threshold) {
          ++alone;
        } else if (length >= threshold) {
          sum += value(length);
        }
      }
      best = std::max(best, alone + (sum + value.most() - 1) / value.most());
    }
  }
  return best;
}

TEST(LowerBoundsTest, DualFeasibleBoundIsTheBestOfItsFunctions) {
  for (const uint64_t seed : testing::Seeds(3000)) {
    testing::RandomStream random(seed);
    const uint32_t most = seed % 3 == 0 ? ~uint32_t{0} : 60;
    const auto capacity = static_cast<uint32_t>(random.Between(seed % 3 == 0 ? most - 9 : 1, most));
    std::vector<uint32_t> lengths(random.Between(1, 8));
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(1, capacity));
    ASSERT_EQ(DualFeasibleBound(CountLengths(lengths), capacity),
              PlainDualFeasibleBound(lengths, capacity))
        << "seed " << seed;
  }
}

TEST(LowerBoundsTest, NeverExceedTheOptimum) {
  std::mt19937_64 engine(testing::Seed(1));
  for (uint64_t i = 0; i < testing::Cases(10000); ++i) {
    const auto capacity = static_cast<uint32_t>(1 + engine() % 40);
    std::vector<uint32_t> lengths(1 + engine() % 9);
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(1 + engine() % capacity);
    BinLimits limits{.capacity = capacity};
    if (i % 2 == 0) limits.max_sequences = static_cast<uint32_t>(1 + engine() % 4);
    const uint64_t optimum =
        testing::BruteForceMinBins(lengths, limits.capacity, limits.max_sequences);
    ASSERT_LE(LowerBoundBins({.lengths = lengths}, limits), optimum);
    ASSERT_GE(MartelloTothL2(lengths, capacity), VolumeBound(lengths, capacity));
  }
}

TEST(LowerBoundsTest, OneThatIsEnoughEndsTheSearchAndOthersAreAsGoodAsWithout) {
  std::mt19937_64 engine(testing::Seed(2));
  for (uint64_t i = 0; i < testing::Cases(2000); ++i) {
    const auto capacity = static_cast<uint32_t>(10 + engine() % 1000);
    std::vector<uint32_t> lengths(1 + engine() % 60);
    for (uint32_t& length : lengths) {
      length = static_cast<uint32_t>(1 + capacity / 4 + engine() % (capacity / 3));
    }
    const PackItems items{.lengths = lengths};
    const BinLimits limits{.capacity = capacity};
    const uint64_t best = LowerBoundBins(items, limits);
    for (uint64_t enough = 0; enough <= best + 2; ++enough) {
      const uint64_t bound = LowerBoundBins(items, limits, enough);
      ASSERT_LE(bound, best);
      ASSERT_GE(bound, std::min(enough, best)) << "enough " << enough;
    }
  }
}

}  // namespace
}  // namespace batchplan
