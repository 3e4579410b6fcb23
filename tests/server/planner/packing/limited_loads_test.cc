// Items with limited loads: every packer keeps the limits, by its own rule.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/karmarkar_karp.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/packing/maxima.h"
#include "server/planner/packing/packer.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;
using ::testing::SizeIs;

struct Instance {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> counts;
  std::vector<uint64_t> loads;
  std::vector<PackLoad> limited;
  BinLimits limits;
  uint64_t seed = 0;

  Instance(uint64_t seed, size_t most_items) : seed(seed) {
    RandomStream random(seed);
    limits.capacity = static_cast<uint32_t>(random.Between(1, 100));
    const uint64_t longest = random.Between(1, limits.capacity);
    lengths.resize(random.Between(1, most_items));
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random.Between(1, longest));
    if (random.Chance(30)) {
      for (size_t i = 0; i < lengths.size(); ++i) {
        counts.push_back(static_cast<uint32_t>(random.Between(1, 4)));
      }
    }
    if (random.Chance(30)) limits.max_sequences = static_cast<uint32_t>(random.Between(4, 9));
    if (random.Chance(50)) {
      for (uint32_t length : lengths) loads.push_back(uint64_t{length} * length);
    }
    limited.resize(random.Between(1, 3));
    for (PackLoad& load : limited) AddValues(random, load);
  }

  // Whole numbers or fractions, for most items or for few, ordered like the lengths or against
  // them.
  void AddValues(RandomStream& random, PackLoad& load) const {
    const double unit = random.OneOf<double>({1, 1.0 / 3});
    const uint64_t most = random.Between(1, 50);
    const uint64_t least = random.Chance(50) ? 0 : random.Between(0, most);
    const auto share = random.OneOf<uint32_t>({20, 70, 100});
    const bool as_lengths = random.Chance(20);
    for (const uint32_t length : lengths) {
      const uint64_t value = as_lengths ? length : random.Between(least, most);
      load.values.push_back(random.Chance(share) ? unit * static_cast<double>(value) : 0);
    }
    const double largest = *std::ranges::max_element(load.values);
    const auto parts = static_cast<double>(random.Between(4, 16));
    load.most = (largest > 0 ? largest * parts / 4 : 1) * (1 + 1e-9);
  }

  PackItems items() const {
    return {.lengths = lengths, .counts = counts, .loads = loads, .limited = limited};
  }
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
  bool IsLegal(std::span<const uint32_t> bin) const {
    for (const PackLoad& load : limited) {
      double sum = 0;
      for (uint32_t item : bin) sum += load.values[item];
      if (sum > load.most * (1 + 1e-12)) return false;
    }
    return TokensIn(bin) <= limits.capacity && SequencesIn(bin) <= limits.max_sequences;
  }
  bool Fits(std::span<const uint32_t> bin, uint32_t item) const {
    std::vector<uint32_t> with(bin.begin(), bin.end());
    with.push_back(item);
    return IsLegal(with);
  }
};

void ExpectPacked(const Bins& bins, const Instance& instance) {
  std::vector<uint32_t> placed;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    ASSERT_FALSE(bins[bin].empty()) << "seed " << instance.seed;
    ASSERT_TRUE(instance.IsLegal(bins[bin])) << "seed " << instance.seed;
    placed.insert(placed.end(), bins[bin].begin(), bins[bin].end());
  }
  std::sort(placed.begin(), placed.end());
  std::vector<uint32_t> all(instance.lengths.size());
  std::iota(all.begin(), all.end(), 0u);
  ASSERT_EQ(placed, all) << "seed " << instance.seed;
}

void ExpectSame(const Bins& bins, const Bins& others, uint64_t seed) {
  ASSERT_EQ(bins.size(), others.size()) << "seed " << seed;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    ASSERT_TRUE(std::ranges::equal(bins[bin], others[bin])) << "seed " << seed;
  }
}

// The fewest bins, by trying every division of the items. O(Bell(n)).
size_t FewestOfAll(const Instance& instance) {
  size_t fewest = instance.lengths.size();
  std::vector<std::vector<uint32_t>> bins;
  const auto place = [&](const auto& self, uint32_t item) -> void {
    if (item == instance.lengths.size()) {
      fewest = std::min(fewest, bins.size());
      return;
    }
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      if (!instance.Fits(bins[bin], item)) continue;
      bins[bin].push_back(item);
      self(self, item + 1);
      bins[bin].pop_back();
    }
    bins.push_back({item});
    self(self, item + 1);
    bins.pop_back();
  };
  place(place, 0);
  return fewest;
}

struct NamedPacker {
  std::string name;
  Packer packer;
};

void PrintTo(const NamedPacker& packer, std::ostream* out) { *out << packer.name; }

class LimitedLoadsTest : public ::testing::TestWithParam<NamedPacker> {
 protected:
  Bins PackOf(const Instance& instance) const {
    return Pack(GetParam().packer, instance.items(), instance.limits, instance.seed);
  }
};

TEST_P(LimitedLoadsTest, ItemsArePlacedOnceWithinAllLimits) {
  for (const uint64_t seed : testing::Seeds(3000)) {
    const Instance instance(seed, 50);
    const Bins bins = PackOf(instance);
    ASSERT_NO_FATAL_FAILURE(ExpectPacked(bins, instance));
    ASSERT_GE(bins.size(), LowerBoundBins(instance.items(), instance.limits)) << "seed " << seed;
  }
}

TEST_P(LimitedLoadsTest, LimitsThatNeverBindChangeNothing) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    Instance instance(seed, 50);
    for (PackLoad& load : instance.limited) {
      load.most = 1 + std::accumulate(load.values.begin(), load.values.end(), 0.0);
    }
    const Bins with = PackOf(instance);
    instance.limited.clear();
    ASSERT_NO_FATAL_FAILURE(ExpectSame(with, PackOf(instance), seed));
  }
}

TEST_P(LimitedLoadsTest, ALoadOfTheLengthsIsTheLimitOnTokens) {
  for (const uint64_t seed : testing::Seeds(300)) {
    Instance instance(seed, 50);
    instance.limited.resize(1);
    PackLoad& load = instance.limited[0];
    load.values.assign(instance.lengths.begin(), instance.lengths.end());
    load.most = instance.limits.capacity;
    const Bins with = PackOf(instance);
    instance.limited.clear();
    ASSERT_NO_FATAL_FAILURE(ExpectSame(with, PackOf(instance), seed));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Packers, LimitedLoadsTest,
    ::testing::Values(NamedPacker{"Concatenative", Packer::kConcatenative},
                      NamedPacker{"FirstFitDecreasing", Packer::kFirstFitDecreasing},
                      NamedPacker{"FirstFitShuffle", Packer::kFirstFitShuffle},
                      NamedPacker{"ModifiedFirstFit", Packer::kModifiedFirstFitDecreasing},
                      NamedPacker{"BestFitDecreasing", Packer::kBestFitDecreasing},
                      NamedPacker{"KarmarkarKarp", Packer::kKarmarkarKarp}),
    [](const ::testing::TestParamInfo<NamedPacker>& info) { return info.param.name; });

// Packers that open a bin only for an item that fits no open bin.
class LimitedAnyFitTest : public LimitedLoadsTest {};

TEST_P(LimitedAnyFitTest, WhatOpensABinFitsInNoneBeforeIt) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    const Instance instance(seed, 50);
    const Bins bins = PackOf(instance);
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      for (size_t before = 0; before < bin; ++before) {
        ASSERT_FALSE(instance.Fits(bins[before], bins[bin].front())) << "seed " << seed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Packers, LimitedAnyFitTest,
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

TEST(LimitedDecreasingTest, FirstFitAndBestFitAreTheNaiveOnes) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    const Instance instance(seed, 50);
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

TEST(LimitedFewestTest, OfAFewItemsTheFewestBinsAreFoundAndNoBoundIsAboveThem) {
  for (const uint64_t seed : testing::Seeds(600)) {
    const Instance instance(seed, 8);
    const PackItems items = instance.items();
    const size_t fewest = FewestOfAll(instance);
    ASSERT_LE(LowerBoundBins(items, instance.limits), fewest) << "seed " << seed;
    ASSERT_LE(LoadBound(instance.limited), fewest) << "seed " << seed;
    for (const Effort effort : {Effort::kFast, Effort::kDefault, Effort::kThorough}) {
      const FewestBins found = PackFewest(items, instance.limits, 0, effort);
      ASSERT_NO_FATAL_FAILURE(ExpectPacked(found.bins, instance));
      ASSERT_LE(found.bound, fewest) << "seed " << seed;
      if (effort == Effort::kFast) continue;
      ASSERT_EQ(found.bins.size(), fewest) << "seed " << seed;
      ASSERT_EQ(found.bound, fewest) << "seed " << seed;
    }
    ASSERT_TRUE(PackInto(items, instance.limits, fewest, Effort::kDefault)) << "seed " << seed;
    if (fewest == 1) continue;
    ASSERT_FALSE(PackInto(items, instance.limits, fewest - 1, Effort::kDefault)) << "seed " << seed;
  }
}

TEST(LimitedFewestTest, NoMoreBinsThanThePackersAndNoFewerThanTheBound) {
  for (const uint64_t seed : testing::Seeds(100)) {
    const Instance instance(seed, 300);
    const PackItems items = instance.items();
    size_t most = instance.lengths.size();
    for (const Packer packer : {Packer::kBestFitDecreasing, Packer::kFirstFitDecreasing,
                                Packer::kModifiedFirstFitDecreasing}) {
      most = std::min(most, Pack(packer, items, instance.limits, 0).size());
    }
    const FewestBins found = PackFewest(items, instance.limits, 0, Effort::kDefault);
    ASSERT_NO_FATAL_FAILURE(ExpectPacked(found.bins, instance));
    ASSERT_LE(found.bins.size(), most) << "seed " << seed;
    ASSERT_GE(found.bins.size(), found.bound) << "seed " << seed;
    ASSERT_GE(found.bound, LowerBoundBins(items, instance.limits)) << "seed " << seed;
  }
}

TEST(LimitedKarmarkarKarpTest, EveryNumberOfBinsUpToTheItemsIsLegal) {
  for (const uint64_t seed : testing::Seeds(300)) {
    const Instance instance(seed, 20);
    for (size_t at_least = 1; at_least <= instance.lengths.size(); ++at_least) {
      const Bins bins = PackKarmarkarKarp(instance.items(), instance.limits, at_least);
      ASSERT_NO_FATAL_FAILURE(ExpectPacked(bins, instance));
      ASSERT_GE(bins.size(), at_least) << "seed " << seed;
    }
  }
}

TEST(LoadBoundTest, CountsWhatCanNotStandTogether) {
  const auto bound = [](std::vector<double> values, double most) {
    const std::vector<PackLoad> limited = {{.values = std::move(values), .most = most}};
    return LoadBound(limited);
  };
  EXPECT_EQ(bound({0, 0, 0}, 1), 0);
  EXPECT_EQ(bound({1, 1, 1}, 3), 1);
  // Their sum would allow two bins.
  EXPECT_EQ(bound({51, 51, 51}, 100), 3);
  EXPECT_EQ(bound({0.51, 0.51, 0.51, 0}, 1), 3);
  EXPECT_EQ(bound({34, 34, 34, 34, 34}, 100), 3);
  EXPECT_EQ(bound({0.34, 0.34, 0.34, 0.34, 0.34}, 1), 3);
  // Thirds fit three to a bin, whatever the rounding.
  EXPECT_EQ(bound(std::vector<double>(30, 1.0 / 3), 1 + 1e-9), 10);
}

TEST(LoadBoundTest, OfSeveralLoadsTheGreatestCounts) {
  const std::vector<uint32_t> lengths = {1, 1, 1, 1};
  const std::vector<PackLoad> limited = {{.values = {1, 1, 1, 1}, .most = 2},
                                         {.values = {3, 3, 3, 0}, .most = 5}};
  const PackItems items = {.lengths = lengths, .limited = limited};
  EXPECT_EQ(LowerBoundBins(items, {.capacity = 100}), 3);
  EXPECT_THAT(PackFewest(items, {.capacity = 100}, 0, Effort::kFast).bins, SizeIs(3));
}

TEST(MaximaTest, FindsTheNextPositionWhereAllNumbersAreLargeEnough) {
  for (const uint64_t seed : testing::Seeds(300)) {
    RandomStream random(seed);
    const size_t width = random.Between(1, 4);
    const size_t size = random.Between(1, 40);
    std::vector<std::vector<double>> numbers(size, std::vector<double>(width, 5));
    Maxima<double> maxima(size, numbers[0]);
    std::vector<double> least(width);
    for (int step = 0; step < 50; ++step) {
      const size_t position = random.Between(0, size - 1);
      for (double& number : numbers[position]) {
        number = static_cast<double>(random.Between(0, 9));
      }
      maxima.Set(position, numbers[position]);
      for (double& number : least) number = static_cast<double>(random.Between(0, 9));
      const size_t begin = random.Between(0, size);
      size_t expected = begin;
      const auto suffices = [&](const std::vector<double>& at) {
        return std::ranges::equal(at, least, [](double a, double b) { return a >= b; });
      };
      while (expected < size && !suffices(numbers[expected])) ++expected;
      ASSERT_EQ(maxima.FirstAtLeast(begin, least), expected) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace batchplan
