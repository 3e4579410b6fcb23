#include "server/planner/packing/packer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "server/planner/packing/kinds.h"
#include "server/planner/packing/lower_bounds.h"
#include "tests/support/brute_force.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr Packer kPackers[] = {Packer::kConcatenative, Packer::kFirstFitDecreasing,
                               Packer::kFirstFitShuffle, Packer::kModifiedFirstFitDecreasing,
                               Packer::kBestFitDecreasing};

std::vector<std::vector<uint32_t>> LengthsIn(const Bins& bins,
                                             const std::vector<uint32_t>& lengths) {
  std::vector<std::vector<uint32_t>> result;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    result.emplace_back();
    for (uint32_t item : bins[bin]) result.back().push_back(lengths[item]);
  }
  return result;
}

// Every item is there once, and no bin is overfull or empty.
void ExpectPacked(const Bins& bins, const std::vector<uint32_t>& lengths, const BinLimits& limits) {
  std::vector<uint32_t> seen;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    ASSERT_FALSE(bins[bin].empty());
    ASSERT_LE(bins[bin].size(), limits.max_sequences);
    uint64_t sum = 0;
    for (uint32_t item : bins[bin]) {
      sum += lengths[item];
      seen.push_back(item);
    }
    ASSERT_LE(sum, limits.capacity);
  }
  std::sort(seen.begin(), seen.end());
  std::vector<uint32_t> all(lengths.size());
  std::iota(all.begin(), all.end(), 0u);
  ASSERT_EQ(seen, all);
}

class Instances {
 public:
  explicit Instances(uint64_t seed) : engine_(seed) {}

  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(engine_() % bound); }

  std::vector<uint32_t> Lengths(uint32_t most, uint32_t capacity) {
    std::vector<uint32_t> lengths(1 + Below(most));
    const uint32_t longest = 1 + Below(capacity);
    for (uint32_t& length : lengths) length = 1 + Below(longest);
    return lengths;
  }

 private:
  std::mt19937_64 engine_;
};

TEST(PackerTest, ModifiedFirstFitPacksTwoBinsWhereWorstFitLeftoversNeedThree) {
  const std::vector<uint32_t> lengths = {3, 2, 4, 4, 4, 5, 2};
  EXPECT_THAT(Pack(Packer::kModifiedFirstFitDecreasing, {.lengths = lengths}, {.capacity = 12}, 0),
              SizeIs(2));
}

TEST(PackerTest, ModifiedFirstFitFollowsItsPhases) {
  // C = 60: 35 and 40 are large, 21 is medium, 11 and 12 are small, 1 and 5 tiny.
  const std::vector<uint32_t> lengths = {35, 40, 21, 11, 12, 1, 5, 25};
  const Bins bins =
      Pack(Packer::kModifiedFirstFitDecreasing, {.lengths = lengths}, {.capacity = 60}, 0);
  // 40 leaves 20: no medium item fits, nor 11 and 12 together, so the largest that fits is added,
  // one by one. 35 gets 25. The rest is first fit decreasing.
  EXPECT_THAT(LengthsIn(bins, lengths),
              ElementsAre(ElementsAre(40, 12, 5, 1), ElementsAre(35, 25), ElementsAre(21, 11)));
}

TEST(PackerTest, ConcatenativeKeepsTheOrder) {
  const std::vector<uint32_t> lengths = {3, 6, 2, 3, 9, 1};
  const Bins bins = Pack(Packer::kConcatenative, {.lengths = lengths}, {.capacity = 10}, 0);
  EXPECT_THAT(LengthsIn(bins, lengths),
              ElementsAre(ElementsAre(3, 6), ElementsAre(2, 3), ElementsAre(9, 1)));
}

TEST(PackerTest, FirstFitTakesTheLowestBinAndBestFitTheFullest) {
  const std::vector<uint32_t> lengths = {5, 6, 4};
  const std::vector<uint32_t> order = {0, 1, 2};
  EXPECT_THAT(LengthsIn(PackFirstFit(order, {.lengths = lengths}, {.capacity = 10}), lengths),
              ElementsAre(ElementsAre(5, 4), ElementsAre(6)));
  EXPECT_THAT(LengthsIn(PackBestFit(order, {.lengths = lengths}, {.capacity = 10}), lengths),
              ElementsAre(ElementsAre(5), ElementsAre(6, 4)));
}

TEST(PackerTest, NothingPacksIntoNoBins) {
  for (Packer packer : kPackers)
    EXPECT_THAT(Pack(packer, PackItems(), {.capacity = 8}, 0), SizeIs(0));
}

TEST(PackerTest, LengthsAtTheLimitOfTheirTypeDoNotOverflow) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  const std::vector<uint32_t> lengths = {kMost, 1, kMost - 1, kMost};
  for (Packer packer : kPackers) {
    const Bins bins = Pack(packer, {.lengths = lengths}, {.capacity = kMost}, 1);
    ExpectPacked(bins, lengths, {.capacity = kMost});
  }
  EXPECT_EQ(MartelloTothL2(lengths, kMost), 3);
}

TEST(PackerTest, EveryPackerKeepsTheLimitsOnRandomInstances) {
  Instances instances(testing::Seed(1));
  for (uint64_t i = 0; i < testing::Cases(4000); ++i) {
    const uint32_t capacity = 1 + instances.Below(60);
    const std::vector<uint32_t> lengths = instances.Lengths(40, capacity);
    BinLimits limits{.capacity = capacity};
    if (i % 3 == 0) limits.max_sequences = 1 + instances.Below(4);
    for (Packer packer : kPackers) {
      const Bins bins = Pack(packer, {.lengths = lengths}, limits, i);
      ASSERT_NO_FATAL_FAILURE(ExpectPacked(bins, lengths, limits));
      ASSERT_GE(bins.size(), LowerBoundBins({.lengths = lengths}, limits));
    }
  }
}

TEST(PackerTest, DecreasingPackersAreWithinTheirProvenBoundOfTheOptimum) {
  Instances instances(testing::Seed(2));
  uint64_t optimal = 0;
  for (uint64_t i = 0; i < testing::Cases(10000); ++i) {
    const uint32_t capacity = 4 + instances.Below(40);
    const std::vector<uint32_t> lengths = instances.Lengths(9, capacity);
    const BinLimits limits{.capacity = capacity};
    const uint64_t optimum =
        testing::BruteForceMinBins(lengths, limits.capacity, limits.max_sequences);
    const size_t first_fit =
        Pack(Packer::kFirstFitDecreasing, {.lengths = lengths}, limits, 0).size();
    const size_t best_fit =
        Pack(Packer::kBestFitDecreasing, {.lengths = lengths}, limits, 0).size();
    ASSERT_GE(first_fit, optimum);
    ASSERT_GE(best_fit, optimum);
    // FFD <= 11/9 OPT + 6/9 (Dosa 2007), BFD <= 11/9 OPT + 4 (Johnson 1974).
    ASSERT_LE(9 * first_fit, 11 * optimum + 6);
    ASSERT_LE(9 * best_fit, 11 * optimum + 36);
    optimal += first_fit == optimum;
  }
  EXPECT_GT(optimal, testing::Cases(9500));
}

TEST(PackerTest, FirstAndBestFitInDecreasingOrderEqualTheirNaiveReferences) {
  Instances instances(testing::Seed(3));
  for (uint64_t i = 0; i < testing::Cases(2000); ++i) {
    const uint32_t capacity = 1 + instances.Below(1000);
    const std::vector<uint32_t> lengths = instances.Lengths(200, capacity);
    const BinLimits limits{.capacity = capacity};
    const std::vector<uint32_t> order = DecreasingOrder(lengths);
    const Bins first_fit = PackFirstFit(order, {.lengths = lengths}, limits);
    const Bins best_fit = PackBestFit(order, {.lengths = lengths}, limits);
    const auto naive_first_fit = testing::NaiveFirstFitDecreasing(lengths, capacity);
    const auto naive_best_fit = testing::NaiveBestFitDecreasing(lengths, capacity);
    ASSERT_EQ(first_fit.size(), naive_first_fit.size());
    ASSERT_EQ(best_fit.size(), naive_best_fit.size());
    for (size_t bin = 0; bin < first_fit.size(); ++bin) {
      ASSERT_TRUE(std::ranges::equal(first_fit[bin], naive_first_fit[bin]));
    }
    for (size_t bin = 0; bin < best_fit.size(); ++bin) {
      ASSERT_TRUE(std::ranges::equal(best_fit[bin], naive_best_fit[bin]));
    }
  }
}

TEST(PackerTest, ModifiedFirstFitIsWithinItsProvenBoundOfTheOptimum) {
  Instances instances(testing::Seed(4));
  for (uint64_t i = 0; i < testing::Cases(3000); ++i) {
    const uint32_t capacity = 6 + instances.Below(60);
    const std::vector<uint32_t> lengths = instances.Lengths(9, capacity);
    const BinLimits limits{.capacity = capacity};
    // Yue and Zhang (1995): MFFD <= 71/60 OPT + 1.
    ASSERT_LE(
        60 * Pack(Packer::kModifiedFirstFitDecreasing, {.lengths = lengths}, limits, 0).size(),
        71 * testing::BruteForceMinBins(lengths, limits.capacity, limits.max_sequences) + 60);
  }
}

TEST(PackerTest, FirstFitShuffleDependsOnItsSeedAlone) {
  Instances instances(testing::Seed(5));
  std::vector<uint32_t> lengths(200);
  for (uint32_t& length : lengths) length = 1 + instances.Below(50);
  const BinLimits limits{.capacity = 50};
  const auto pack = [&](uint64_t seed) {
    return LengthsIn(Pack(Packer::kFirstFitShuffle, {.lengths = lengths}, limits, seed), lengths);
  };
  EXPECT_EQ(pack(7), pack(7));
  EXPECT_NE(pack(7), pack(8));
}

}  // namespace
}  // namespace batchplan
