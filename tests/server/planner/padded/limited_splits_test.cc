// Splits of items with limited loads: each keeps the limits, and is still the best of its kind.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "server/planner/padded/rank_splits.h"
#include "server/planner/padded/splits.h"
#include "tests/server/planner/padded/random_items.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::AllSplits;
using testing::IsSplit;
using testing::RandomItems;
using testing::RandomStream;
using testing::TokensOf;

constexpr uint64_t kNoSplit = std::numeric_limits<uint64_t>::max();

// Random items with one to three limited loads, with whole numbers or thirds.
struct LimitedItems : RandomItems {
  std::vector<RunLoad> loads;
  // The cost of one sequence of each item: ascending, except that items that run alone come last.
  std::vector<uint64_t> costs;

  LimitedItems(RandomStream& random, size_t most) : RandomItems(random, most) {
    const size_t count = random.Between(1, 3);
    costs = testing::CostsOf(*this, random.Between(0, 3));
    if (random.Chance(30)) AddAlone(random);
    for (size_t load = 0; load < count; ++load) {
      const double unit = random.OneOf<double>({1, 1.0 / 3});
      const auto share = random.OneOf<uint32_t>({20, 100});
      std::vector<double> values;
      for (size_t i = 0; i < widths.size(); ++i) {
        const auto value = static_cast<double>(random.Between(1, 30));
        values.push_back(random.Chance(share) ? unit * value : 0);
      }
      const double largest = *std::ranges::max_element(values);
      const auto parts = static_cast<double>(random.Between(4, 16));
      loads.emplace_back(values, (largest > 0 ? largest * parts / 4 : 1) * (1 + 1e-9));
    }
  }

  // Items as wide as the limit, with any costs.
  void AddAlone(RandomStream& random) {
    for (uint64_t alone = random.Between(1, 3); alone > 0; --alone) {
      widths.push_back(static_cast<uint32_t>(limits.tokens));
      if (!counts.empty()) counts.push_back(1);
      costs.push_back(random.Between(0, 500));
    }
  }

  PaddedItems view() const { return {.widths = widths, .counts = counts, .loads = loads}; }
  bool IsSplitOf(const Cuts& cuts) const { return IsSplit(cuts, view(), limits); }
};

TEST(RunLoadTest, RunsOfAMillionItemsAreSummedAsIfTheyStoodAlone) {
  RandomStream random(1);
  std::vector<double> values(1'000'000);
  for (double& value : values) value = static_cast<double>(random.Between(1, 1'000'000)) / 7;
  const RunLoad load(values, 1);
  for (size_t begin = 0; begin + 10 <= values.size(); begin += 99'991) {
    double sum = 0;
    for (size_t i = begin; i < begin + 10; ++i) sum += values[i];
    ASSERT_NEAR(load.Of(begin, begin + 10), sum, 1e-14 * sum);
  }
  // A tenth summed a million times by itself is off by a part in 10^11.
  const RunLoad tenths(std::vector<double>(1'000'000, 0.1), 1 + 1e-12);
  ASSERT_EQ(tenths.Of(0, 1'000'000), 100'000);
  ASSERT_TRUE(tenths.Allows(999'990, 1'000'000));
  ASSERT_FALSE(tenths.Allows(999'989, 1'000'000));
}

TEST(LimitedSplitsTest, TheScanHasTheFewestRunsOfAllSplits) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const LimitedItems items(random, 10);
    const Cuts cuts = SortedScan(items.view(), items.limits);
    ASSERT_TRUE(items.IsSplitOf(cuts)) << "seed " << seed;
    for (const Cuts& other : AllSplits(items.view(), items.limits)) {
      ASSERT_LE(cuts.size(), other.size()) << "seed " << seed;
    }
  }
}

TEST(LimitedSplitsTest, LimitsThatNeverBindChangeNothing) {
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    LimitedItems items(random, 60);
    const std::vector<double> values(items.widths.size(), 0.1);
    const std::vector<RunLoad> never = {RunLoad(values, 100)};
    PaddedItems with = items.view();
    with.loads = never;
    PaddedItems without = items.view();
    without.loads = {};
    const Cuts scan = SortedScan(without, items.limits);
    ASSERT_EQ(SortedScan(with, items.limits), scan) << "seed " << seed;
    const size_t runs = random.Between(scan.size() - 1, items.widths.size());
    ASSERT_EQ(OptimalSplit(with, items.limits, runs), OptimalSplit(without, items.limits, runs));
    const Cuts level = LevelSplit(without, items.costs, items.limits, runs);
    ASSERT_EQ(LevelSplit(with, items.costs, items.limits, runs), level) << "seed " << seed;
    ASSERT_EQ(ImproveSlots(with, items.costs, items.limits, 1, level, 10'000),
              ImproveSlots(without, items.costs, items.limits, 1, level, 10'000));
  }
}

TEST(LimitedSplitsTest, OfAsManyRunsTheFewestTokensAndTheLowestLevel) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const LimitedItems items(random, 9);
    const auto level_of = [&](const Cuts& cuts) {
      const std::vector<uint64_t> run_costs = RunCosts(items.view(), items.costs, cuts);
      return *std::ranges::max_element(run_costs);
    };
    std::vector<uint64_t> tokens(items.widths.size() + 1, kNoSplit);
    std::vector<uint64_t> level(items.widths.size() + 1, kNoSplit);
    for (const Cuts& cuts : AllSplits(items.view(), items.limits)) {
      const size_t runs = cuts.size() - 1;
      tokens[runs] = std::min(tokens[runs], TokensOf(cuts, items.view()));
      level[runs] = std::min(level[runs], level_of(cuts));
    }
    const size_t fewest = SortedScan(items.view(), items.limits).size() - 1;
    for (size_t runs = fewest; runs <= items.widths.size(); ++runs) {
      const Cuts optimal = OptimalSplit(items.view(), items.limits, runs);
      ASSERT_EQ(optimal.size(), runs + 1) << "seed " << seed;
      ASSERT_TRUE(items.IsSplitOf(optimal)) << "seed " << seed << " runs " << runs;
      ASSERT_EQ(TokensOf(optimal, items.view()), tokens[runs]) << "seed " << seed;
      const Cuts lowest = LevelSplit(items.view(), items.costs, items.limits, runs);
      ASSERT_EQ(lowest.size(), runs + 1) << "seed " << seed;
      ASSERT_TRUE(items.IsSplitOf(lowest)) << "seed " << seed << " runs " << runs;
      // If more runs may cost more, like halves that stand alone, fewer runs decide the level.
      ASSERT_LE(level_of(lowest),
                *std::min_element(level.begin() + static_cast<ptrdiff_t>(fewest),
                                  level.begin() + static_cast<ptrdiff_t>(runs) + 1))
          << "seed " << seed << " runs " << runs;
    }
  }
}

TEST(LimitedSplitsTest, HalvedRunsAndMovedCutsKeepTheLimits) {
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    const LimitedItems items(random, 60);
    const PaddedItems view = items.view();
    const Cuts scan = SortedScan(view, items.limits);
    const size_t runs = random.Between(scan.size() - 1, items.widths.size());
    const Cuts halved = HalveRuns({&view, 1}, scan, runs);
    ASSERT_EQ(halved.size(), runs + 1) << "seed " << seed;
    ASSERT_TRUE(items.IsSplitOf(halved)) << "seed " << seed;
    const Cuts improved = ImproveSlots(view, items.costs, items.limits, 1, halved, 100'000);
    ASSERT_EQ(improved.size(), runs + 1) << "seed " << seed;
    ASSERT_TRUE(items.IsSplitOf(improved)) << "seed " << seed;
  }
}

TEST(LimitedSplitsTest, RanksThatShareRunsKeepTheirOwnLimits) {
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    std::vector<LimitedItems> ranks;
    const size_t count = random.Between(1, 4);
    while (ranks.size() < count) {
      LimitedItems rank(random, 12);
      rank.counts.clear();
      if (ranks.empty() || rank.widths.size() == ranks[0].widths.size()) ranks.push_back(rank);
    }
    PaddedLimits limits;
    std::vector<PaddedItems> views;
    for (const LimitedItems& rank : ranks) {
      limits.tokens = std::max(limits.tokens, rank.limits.tokens);
      views.push_back(rank.view());
    }
    const Cuts cuts = SharedSortedScan(views, limits);
    for (const LimitedItems& rank : ranks) {
      ASSERT_TRUE(IsSplit(cuts, rank.view(), limits)) << "seed " << seed;
    }
  }
}

TEST(LimitedSplitsTest, RanksOfTheirOwnItemsKeepTheLimitsAndTheSumNeverRises) {
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    std::vector<LimitedItems> ranks;
    PaddedLimits limits;
    for (uint64_t count = random.Between(1, 4); count > 0; --count) {
      ranks.emplace_back(random, 60);
      limits.tokens = std::max(limits.tokens, ranks.back().limits.tokens);
    }
    std::vector<RankSplit> splits;
    for (const LimitedItems& rank : ranks) {
      splits.push_back(
          {.items = rank.view(), .costs = rank.costs, .cuts = SortedScan(rank.view(), limits)});
    }
    const uint64_t before = LockstepCost(splits);
    ImproveRankSlots(limits, 100'000, splits);
    ASSERT_LE(LockstepCost(splits), before) << "seed " << seed;
    for (const RankSplit& split : splits) {
      ASSERT_TRUE(IsSplit(split.cuts, split.items, limits)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace batchplan
