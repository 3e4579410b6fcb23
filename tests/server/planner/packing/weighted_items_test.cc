// Items of several sequences: every packer keeps the limit on sequences like that on tokens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/planner/packing/lower_bounds.h"
#include "server/planner/packing/packer.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::ElementsAre;
using testing::RandomStream;
using ::testing::SizeIs;

struct Instance {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> counts;
  std::vector<uint64_t> loads;
  BinLimits limits;
  uint64_t seed = 0;

  explicit Instance(uint64_t seed) : seed(seed) {
    RandomStream random(seed);
    limits.capacity = static_cast<uint32_t>(random.Between(1, 100));
    const uint64_t longest = random.Between(1, limits.capacity);
    const auto most = static_cast<uint32_t>(random.Between(1, 6));
    lengths.resize(random.Between(1, 50));
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(1, longest));
    if (random.Chance(80)) {
      for (size_t i = 0; i < lengths.size(); ++i) {
        counts.push_back(static_cast<uint32_t>(random.Between(1, most)));
      }
    }
    if (random.Chance(50)) {
      for (uint32_t length : lengths) loads.push_back(uint64_t{length} * length);
    }
    if (random.Chance(80))
      limits.max_sequences = most + static_cast<uint32_t>(random.Between(0, 8));
  }

  PackItems items() const { return {.lengths = lengths, .counts = counts, .loads = loads}; }
  uint32_t count(uint32_t item) const { return counts.empty() ? 1 : counts[item]; }

  uint64_t TokensIn(std::span<const uint32_t> bin) const {
    uint64_t tokens = 0;
    for (uint32_t item : bin) tokens += lengths[item];
    return tokens;
  }
  uint64_t SequencesIn(std::span<const uint32_t> bin) const {
    uint64_t sequences = 0;
    for (uint32_t item : bin) sequences += count(item);
    return sequences;
  }
  bool Fits(std::span<const uint32_t> bin, uint32_t item) const {
    return TokensIn(bin) + lengths[item] <= limits.capacity &&
           SequencesIn(bin) + count(item) <= limits.max_sequences;
  }
};

struct NamedPacker {
  std::string name;
  Packer packer;
};

void PrintTo(const NamedPacker& packer, std::ostream* out) { *out << packer.name; }

class WeightedItemsTest : public ::testing::TestWithParam<NamedPacker> {
 protected:
  Bins PackOf(const Instance& instance) const {
    return Pack(GetParam().packer, instance.items(), instance.limits, instance.seed);
  }
};

TEST_P(WeightedItemsTest, ArePlacedOnceWithinBothLimits) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    const Instance instance(seed);
    const Bins bins = PackOf(instance);
    std::vector<uint32_t> placed;
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      ASSERT_FALSE(bins[bin].empty()) << "seed " << seed;
      ASSERT_LE(instance.TokensIn(bins[bin]), instance.limits.capacity) << "seed " << seed;
      ASSERT_LE(instance.SequencesIn(bins[bin]), instance.limits.max_sequences) << "seed " << seed;
      placed.insert(placed.end(), bins[bin].begin(), bins[bin].end());
    }
    std::sort(placed.begin(), placed.end());
    std::vector<uint32_t> all(instance.lengths.size());
    std::iota(all.begin(), all.end(), 0u);
    ASSERT_EQ(placed, all) << "seed " << seed;
    ASSERT_GE(bins.size(), LowerBoundBins(instance.items(), instance.limits)) << "seed " << seed;
  }
}

TEST_P(WeightedItemsTest, CountsOfOneAreNoCounts) {
  for (const uint64_t seed : testing::Seeds(500)) {
    Instance instance(seed);
    instance.counts.clear();
    const Bins without = PackOf(instance);
    instance.counts.assign(instance.lengths.size(), 1);
    const Bins with = PackOf(instance);
    ASSERT_EQ(with.size(), without.size()) << "seed " << seed;
    for (size_t bin = 0; bin < with.size(); ++bin) {
      ASSERT_TRUE(std::ranges::equal(with[bin], without[bin])) << "seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Packers, WeightedItemsTest,
    ::testing::Values(NamedPacker{"Concatenative", Packer::kConcatenative},
                      NamedPacker{"FirstFitDecreasing", Packer::kFirstFitDecreasing},
                      NamedPacker{"FirstFitShuffle", Packer::kFirstFitShuffle},
                      NamedPacker{"ModifiedFirstFit", Packer::kModifiedFirstFitDecreasing},
                      NamedPacker{"BestFitDecreasing", Packer::kBestFitDecreasing},
                      NamedPacker{"KarmarkarKarp", Packer::kKarmarkarKarp}),
    [](const ::testing::TestParamInfo<NamedPacker>& info) { return info.param.name; });

// Packers that open a bin only for an item that fits no open bin.
class AnyFitTest : public WeightedItemsTest {};

TEST_P(AnyFitTest, WhatOpensABinFitsInNoneBeforeIt) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    const Instance instance(seed);
    const Bins bins = PackOf(instance);
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      for (size_t before = 0; before < bin; ++before) {
        ASSERT_FALSE(instance.Fits(bins[before], bins[bin].front())) << "seed " << seed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Packers, AnyFitTest,
    ::testing::Values(NamedPacker{"FirstFitDecreasing", Packer::kFirstFitDecreasing},
                      NamedPacker{"FirstFitShuffle", Packer::kFirstFitShuffle},
                      NamedPacker{"ModifiedFirstFit", Packer::kModifiedFirstFitDecreasing},
                      NamedPacker{"BestFitDecreasing", Packer::kBestFitDecreasing}),
    [](const ::testing::TestParamInfo<NamedPacker>& info) { return info.param.name; });

// Longest first, into the first bin, or the one with the most tokens, that holds the item.
std::vector<std::vector<uint32_t>> NaiveDecreasing(const Instance& instance, bool fullest) {
  std::vector<uint32_t> order(instance.lengths.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(instance.lengths[a], a) > std::pair(instance.lengths[b], b);
  });
  std::vector<std::vector<uint32_t>> bins;
  for (uint32_t item : order) {
    size_t chosen = bins.size();
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      if (!instance.Fits(bins[bin], item)) continue;
      if (chosen == bins.size() ||
          (fullest && instance.TokensIn(bins[bin]) > instance.TokensIn(bins[chosen]))) {
        chosen = bin;
      }
    }
    if (chosen == bins.size()) bins.emplace_back();
    bins[chosen].push_back(item);
  }
  return bins;
}

TEST(WeightedDecreasingTest, FirstFitAndBestFitAreTheNaiveOnes) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    const Instance instance(seed);
    for (const bool fullest : {false, true}) {
      const Bins bins = Pack(fullest ? Packer::kBestFitDecreasing : Packer::kFirstFitDecreasing,
                             instance.items(), instance.limits, 0);
      const auto naive = NaiveDecreasing(instance, fullest);
      ASSERT_EQ(bins.size(), naive.size()) << "seed " << seed;
      for (size_t bin = 0; bin < bins.size(); ++bin) {
        ASSERT_TRUE(std::ranges::equal(bins[bin], naive[bin])) << "seed " << seed;
      }
    }
  }
}

std::vector<uint64_t> SumsOf(const Bins& bins, const std::vector<uint64_t>& loads) {
  std::vector<uint64_t> sums;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    sums.push_back(0);
    for (uint32_t item : bins[bin]) sums.back() += loads[item];
  }
  std::sort(sums.begin(), sums.end(), std::greater<>());
  return sums;
}

TEST(KarmarkarKarpPackerTest, EightSevensAtBudgetEightStandAlone) {
  // Seven micro-batches are enough by volume, but a division into seven ignores the budget.
  const std::vector<uint32_t> lengths(8, 7);
  EXPECT_THAT(Pack(Packer::kKarmarkarKarp, {.lengths = lengths}, {.capacity = 8}, 0), SizeIs(8));
}

TEST(KarmarkarKarpPackerTest, LoadsAreEvenedOutAndLengthsKeepTheBudget) {
  const std::vector<uint32_t> lengths(5, 1);
  const std::vector<uint64_t> loads = {8, 7, 6, 5, 4};
  const PackItems items = {.lengths = lengths, .loads = loads};
  EXPECT_THAT(SumsOf(Pack(Packer::kKarmarkarKarp, items, {.capacity = 3}, 0), loads),
              ElementsAre(16, 14));
  EXPECT_THAT(Pack(Packer::kKarmarkarKarp, items, {.capacity = 5}, 0), SizeIs(1));
  EXPECT_THAT(Pack(Packer::kKarmarkarKarp, items, {.capacity = 1}, 0), SizeIs(5));
}

TEST(KarmarkarKarpPackerTest, AnOverfullPartGivesItsLightestToOneWithRoom) {
  // By load 9 | 5 4. But the second part has 12 of 11 tokens, and the first has room for the 1.
  const std::vector<uint32_t> lengths = {5, 11, 1};
  const std::vector<uint64_t> loads = {9, 5, 4};
  const Bins bins =
      Pack(Packer::kKarmarkarKarp, {.lengths = lengths, .loads = loads}, {.capacity = 11}, 0);
  EXPECT_THAT(SumsOf(bins, loads), ElementsAre(13, 5));
}

TEST(KarmarkarKarpPackerTest, AnotherBinIsOpenedWhereNoPartHasRoom) {
  // Two bins would do by volume, but 9 | 5 4 leaves no room for the 3.
  const std::vector<uint32_t> lengths = {9, 5, 4, 3};
  EXPECT_THAT(Pack(Packer::kKarmarkarKarp, {.lengths = lengths}, {.capacity = 11}, 0), SizeIs(3));
}

TEST(KarmarkarKarpPackerTest, BinsOfManyShortItemsDifferByLessThanTheLongest) {
  for (const uint64_t seed : testing::Seeds(100)) {
    RandomStream random(seed);
    std::vector<uint32_t> lengths(400);
    std::vector<uint64_t> loads;
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(1, 50));
    loads.assign(lengths.begin(), lengths.end());
    // A budget that leaves a tenth of every bin free.
    const uint64_t total = std::accumulate(loads.begin(), loads.end(), uint64_t{0});
    const uint64_t bins_wanted = random.Between(2, 9);
    const auto capacity = static_cast<uint32_t>(total / bins_wanted * 11 / 10);
    const std::vector<uint64_t> sums = SumsOf(
        Pack(Packer::kKarmarkarKarp, {.lengths = lengths}, {.capacity = capacity}, 0), loads);
    ASSERT_EQ(sums.size(), (total + capacity - 1) / capacity) << "seed " << seed;
    ASSERT_LT(sums.front() - sums.back(), 50) << "seed " << seed;
  }
}

}  // namespace
}  // namespace batchplan
