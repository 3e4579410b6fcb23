#include "server/planner/packing/fewest_bins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stop_token>
#include <vector>

#include "server/planner/packing/lower_bounds.h"
#include "server/planner/packing/packer.h"
#include "tests/server/planner/packing/expect_packed.h"
#include "tests/support/brute_force.h"
#include "tests/support/classic_instances.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;

constexpr Effort kEfforts[] = {Effort::kFast, Effort::kDefault, Effort::kThorough};

std::vector<std::vector<uint32_t>> Lists(const Bins& bins) {
  std::vector<std::vector<uint32_t>> lists;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    lists.emplace_back(bins[bin].begin(), bins[bin].end());
  }
  return lists;
}

TEST(FewestBinsTest, SmallInstancesAreSolvedAndProven) {
  RandomStream random(testing::Seed(1));
  for (uint64_t i = 0; i < testing::Cases(3000); ++i) {
    const BinLimits limits{.capacity = static_cast<uint32_t>(random.Between(1, 60))};
    std::vector<uint32_t> lengths(random.Between(1, 10));
    for (uint32_t& length : lengths) {
      length = static_cast<uint32_t>(random.Between(1, limits.capacity));
    }
    const FewestBins fewest = PackFewest({.lengths = lengths}, limits, 0, Effort::kDefault);
    ExpectPacked(fewest.bins, {.lengths = lengths}, limits);
    ASSERT_EQ(fewest.bins.size(), testing::BruteForceMinBins(lengths, limits.capacity));
    ASSERT_EQ(fewest.bound, fewest.bins.size());
  }
}

TEST(FewestBinsTest, ItemsOfSeveralSequencesKeepBothLimits) {
  for (const uint64_t seed : testing::Seeds(300)) {
    RandomStream random(seed);
    const auto most = static_cast<uint32_t>(random.Between(1, 6));
    const BinLimits limits{.capacity = static_cast<uint32_t>(random.Between(1, 100)),
                           .max_sequences = most + static_cast<uint32_t>(random.Between(0, 30))};
    std::vector<uint32_t> lengths(random.Between(1, 80));
    std::vector<uint32_t> counts(lengths.size());
    for (size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = static_cast<uint32_t>(random.Between(1, limits.capacity));
      counts[i] = static_cast<uint32_t>(random.Between(1, most));
    }
    const PackItems items{.lengths = lengths, .counts = counts};
    for (const Effort effort : kEfforts) {
      const FewestBins fewest = PackFewest(items, limits, 0, effort);
      ExpectPacked(fewest.bins, items, limits);
      ASSERT_GE(fewest.bins.size(), fewest.bound);
    }
  }
}

TEST(FewestBinsTest, IsNeverWorseThanTheDecreasingPackers) {
  for (const testing::ClassicShape& shape : testing::ClassicShapes()) {
    const testing::ClassicInstance instance = shape.make(7);
    const PackItems items{.lengths = instance.lengths};
    const BinLimits limits{.capacity = instance.capacity};
    size_t previous =
        std::min({Pack(Packer::kFirstFitDecreasing, items, limits, 0).size(),
                  Pack(Packer::kBestFitDecreasing, items, limits, 0).size(),
                  Pack(Packer::kModifiedFirstFitDecreasing, items, limits, 0).size()});
    for (const Effort effort : {Effort::kFast, Effort::kDefault}) {
      const FewestBins fewest = PackFewest(items, limits, 0, effort);
      ExpectPacked(fewest.bins, items, limits);
      ASSERT_LE(fewest.bins.size(), previous) << shape.name;
      ASSERT_GE(fewest.bins.size(), fewest.bound) << shape.name;
      ASSERT_GE(fewest.bound, LowerBoundBins(items, limits)) << shape.name;
      previous = fewest.bins.size();
    }
  }
}

TEST(FewestBinsTest, MoreEffortIsNeverWorse) {
  for (const testing::ClassicShape& shape : testing::ClassicShapes()) {
    const testing::ClassicInstance instance = shape.make(4);
    if (instance.lengths.size() > 180) continue;  // To save time.
    const PackItems items{.lengths = instance.lengths};
    const BinLimits limits{.capacity = instance.capacity};
    const FewestBins brief = PackFewBriefly(items, limits, 0);
    ExpectPacked(brief.bins, items, limits);
    size_t previous = brief.bins.size();
    for (const Effort effort : {Effort::kDefault, Effort::kThorough}) {
      const FewestBins fewest = PackFewest(items, limits, 0, effort);
      ExpectPacked(fewest.bins, items, limits);
      ASSERT_LE(fewest.bins.size(), previous) << shape.name;
      ASSERT_GE(fewest.bins.size(), brief.bound) << shape.name;
      previous = fewest.bins.size();
    }
  }
}

TEST(FewestBinsTest, TripletsAreSolved) {
  // Every bin is completely full, where greedy packers need about 8 % more bins.
  size_t solved = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const std::vector<uint32_t> lengths = testing::TripletLengths(40, seed, 1000);
    const FewestBins fewest =
        PackFewest({.lengths = lengths}, {.capacity = 1000}, 0, Effort::kDefault);
    ExpectPacked(fewest.bins, {.lengths = lengths}, {.capacity = 1000});
    solved += fewest.bins.size() == 40;
  }
  EXPECT_GE(solved, 9);
}

TEST(FewestBinsTest, StopsAtEnough) {
  // First fit decreasing needs 23 bins for these 20 triplets.
  const std::vector<uint32_t> lengths = testing::TripletLengths(20, 1, 1000);
  const PackItems items{.lengths = lengths};
  const BinLimits limits{.capacity = 1000};
  const size_t quick = PackFewest(items, limits, 0, Effort::kFast).bins.size();
  ASSERT_GT(quick, 20);
  EXPECT_EQ(PackFewest(items, limits, quick, Effort::kThorough).bins.size(), quick);
  EXPECT_EQ(PackFewest(items, limits, 0, Effort::kThorough).bins.size(), 20);
}

TEST(FewestBinsTest, ExtremesArePacked) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  const std::vector<uint32_t> none;
  const std::vector<uint32_t> one = {5};
  const std::vector<uint32_t> equal(1000, 3);
  const std::vector<uint32_t> ones(100'000, 1);
  const std::vector<uint32_t> huge = {kMost,         kMost - 1,     kMost / 2, kMost / 2,
                                      kMost / 2 + 1, kMost / 3,     kMost / 3, kMost / 3,
                                      kMost / 4,     kMost / 4 + 1, 1,         1};
  for (const Effort effort : kEfforts) {
    EXPECT_EQ(PackFewest({.lengths = none}, {.capacity = 1}, 0, effort).bins.size(), 0);
    EXPECT_EQ(PackFewest({.lengths = one}, {.capacity = 5}, 0, effort).bins.size(), 1);
    EXPECT_EQ(PackFewest({.lengths = equal}, {.capacity = 10}, 0, effort).bins.size(), 334);
    EXPECT_EQ(PackFewest({.lengths = ones}, {.capacity = kMost}, 0, effort).bins.size(), 1);
    const FewestBins fewest = PackFewest({.lengths = huge}, {.capacity = kMost}, 0, effort);
    ExpectPacked(fewest.bins, {.lengths = huge}, {.capacity = kMost});
    EXPECT_GE(fewest.bins.size(), fewest.bound);
  }
}

TEST(FewestBinsTest, IsTheSameEveryTimeAndEverywhere) {
  std::vector<size_t> sizes;
  for (const testing::ClassicShape& shape : testing::ClassicShapes()) {
    const testing::ClassicInstance instance = shape.make(3);
    const PackItems items{.lengths = instance.lengths};
    const BinLimits limits{.capacity = instance.capacity};
    const FewestBins first = PackFewest(items, limits, 0, Effort::kDefault);
    const FewestBins second = PackFewest(items, limits, 0, Effort::kDefault);
    ASSERT_EQ(Lists(first.bins), Lists(second.bins)) << shape.name;
    sizes.push_back(first.bins.size());
  }
  EXPECT_THAT(sizes,
              ::testing::ElementsAre(52, 104, 208, 401, 20, 40, 83, 167, 94, 23, 56, 22, 61, 17));
}

TEST(FewestBinsTest, AStoppedSearchHasTheBestPackingSoFar) {
  std::stop_source source;
  source.request_stop();
  const std::vector<uint32_t> lengths = testing::TripletLengths(500, 1, 1000);
  const BinLimits limits{.capacity = 1000};
  const FewestBins fewest =
      PackFewest({.lengths = lengths}, limits, 0, Effort::kThorough, source.get_token());
  ExpectPacked(fewest.bins, {.lengths = lengths}, limits);
  EXPECT_GT(fewest.bins.size(), 500);
  EXPECT_LE(fewest.bound, 500);
}

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
