#include "server/planner/padded/splits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "tests/server/planner/padded/random_items.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::AllSplits;
using ::testing::ElementsAre;
using testing::IsSplit;
using testing::RandomItems;
using testing::RandomStream;
using testing::TokensOf;

// The fewest micro-batches for the sequences in any order. O(3^n).
size_t FewestOfAll(const std::vector<uint32_t>& widths, const PaddedLimits& limits) {
  const uint32_t sets = uint32_t{1} << widths.size();
  std::vector<size_t> fewest(sets, widths.size());
  fewest[0] = 0;
  for (uint32_t set = 1; set < sets; ++set) {
    for (uint32_t part = set; part > 0; part = (part - 1) & set) {
      const auto widest = static_cast<size_t>(std::bit_width(part)) - 1;  // widths ascend
      if (!limits.Allow(static_cast<uint64_t>(std::popcount(part)), widths[widest])) continue;
      fewest[set] = std::min(fewest[set], 1 + fewest[set - part]);
    }
  }
  return fewest[sets - 1];
}

TEST(SortedScanTest, ClosesARunWhereTheNextItemWouldBreakTheBudget) {
  const std::vector<uint32_t> widths = {1, 5, 6, 8};
  EXPECT_THAT(SortedScan({.widths = widths}, {.tokens = 10}), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(SortedScan({.widths = widths}, {.tokens = 12}), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(SortedScan({.widths = widths}, {.tokens = 18}), ElementsAre(0, 3, 4));
  EXPECT_THAT(SortedScan({.widths = widths}, {.tokens = 18, .sequences = 2}), ElementsAre(0, 2, 4));
  const std::vector<uint32_t> counts = {1, 2, 1, 1};
  EXPECT_THAT(SortedScan({.widths = widths, .counts = counts}, {.tokens = 14}),
              ElementsAre(0, 1, 2, 3, 4));
}

TEST(SortedScanTest, WidthsAtTheLimitOfTheirTypeDoNotOverflow) {
  const std::vector<uint32_t> widths(5, std::numeric_limits<uint32_t>::max());
  EXPECT_THAT(SortedScan({.widths = widths}, {.tokens = std::numeric_limits<uint32_t>::max()}),
              ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(SortedScanTest, NoSplitOfTheSortedOrderHasFewerRuns) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const RandomItems items(random, 10);
    const Cuts cuts = SortedScan(items.view(), items.limits);
    ASSERT_TRUE(IsSplit(cuts, items.view(), items.limits)) << "seed " << seed;
    for (const Cuts& other : AllSplits(items.view(), items.limits)) {
      ASSERT_LE(cuts.size(), other.size()) << "seed " << seed;
    }
  }
}

TEST(SortedScanTest, OfSingleSequencesNoMicrobatchesAtAllAreFewer) {
  for (const uint64_t seed : testing::Seeds(300)) {
    RandomStream random(seed);
    RandomItems items(random, 8);
    items.counts.clear();
    ASSERT_EQ(SortedScan(items.view(), items.limits).size() - 1,
              FewestOfAll(items.widths, items.limits))
        << "seed " << seed;
  }
}

TEST(SharedSortedScanTest, RanksShareRunsOfTheLongestWidths) {
  // The dynamic batching example of ROLL's document with its own rule kept: 1 5 6 8 and 3 6 7 8 in
  // multiples of two.
  const std::vector<uint32_t> first = {2, 6, 6, 8};
  const std::vector<uint32_t> second = {4, 6, 8, 8};
  const PaddedItems ranks[] = {{.widths = first}, {.widths = second}};
  EXPECT_THAT(SharedSortedScan(ranks, {.tokens = 10}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(SharedSortedScan(ranks, {.tokens = 12}), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(SharedSortedScan(ranks, {.tokens = 16}), ElementsAre(0, 2, 4));
}

// Ranks with equally many items.
std::vector<RandomItems> RandomRanks(RandomStream& random) {
  std::vector<RandomItems> ranks;
  const size_t count = random.Between(1, 4);
  while (ranks.size() < count) {
    RandomItems rank(random, 12);
    while (!ranks.empty() && rank.widths.size() != ranks[0].widths.size()) {
      rank = RandomItems(random, 12);
    }
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

std::vector<PaddedItems> Views(const std::vector<RandomItems>& ranks) {
  std::vector<PaddedItems> views;
  for (const RandomItems& rank : ranks) views.push_back(rank.view());
  return views;
}

// A rank with the widest item of all ranks at each position; for items of equal counts.
RandomItems Envelope(const std::vector<RandomItems>& ranks) {
  RandomItems envelope = ranks[0];
  for (const RandomItems& rank : ranks) {
    for (size_t i = 0; i < rank.widths.size(); ++i) {
      envelope.widths[i] = std::max(envelope.widths[i], rank.widths[i]);
    }
    envelope.limits.tokens = std::max(envelope.limits.tokens, rank.limits.tokens);
    envelope.limits.sequences = std::max(envelope.limits.sequences, rank.limits.sequences);
  }
  return envelope;
}

TEST(SharedSortedScanTest, IsTheScanOfTheLongestAtEveryPosition) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    std::vector<RandomItems> ranks = RandomRanks(random);
    for (RandomItems& rank : ranks) rank.counts.clear();
    const RandomItems envelope = Envelope(ranks);
    ASSERT_EQ(SharedSortedScan(Views(ranks), envelope.limits),
              SortedScan(envelope.view(), envelope.limits))
        << "seed " << seed;
  }
}

TEST(SharedSortedScanTest, KeepsTheLimitsOnEveryRank) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const std::vector<RandomItems> ranks = RandomRanks(random);
    PaddedLimits limits = Envelope(ranks).limits;
    limits.tokens *= 4;  // an item may be wider on another rank, and stand for more sequences
    const Cuts cuts = SharedSortedScan(Views(ranks), limits);
    const std::vector<uint32_t> widest = Envelope(ranks).widths;
    for (const RandomItems& rank : ranks) {
      ASSERT_TRUE(IsSplit(cuts, {.widths = widest, .counts = rank.counts}, limits))
          << "seed " << seed;
    }
  }
}

TEST(HalveRunsTest, TheRunOfMostTokensIsHalvedFirstAndTheSmallerHalfStandsInFront) {
  const std::vector<uint32_t> widths = {1, 1, 1, 1, 7, 7, 7, 9};
  const PaddedItems ranks[] = {{.widths = widths}};
  EXPECT_THAT(HalveRuns(ranks, {0, 4, 7, 8}, 3), ElementsAre(0, 4, 7, 8));
  EXPECT_THAT(HalveRuns(ranks, {0, 4, 7, 8}, 4), ElementsAre(0, 4, 5, 7, 8));
  EXPECT_THAT(HalveRuns(ranks, {0, 4, 7, 8}, 5), ElementsAre(0, 4, 5, 6, 7, 8));
  EXPECT_THAT(HalveRuns(ranks, {0, 4, 7, 8}, 8), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(HalveRunsTest, EveryNumberOfRunsUpToTheItemsIsReached) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const std::vector<RandomItems> ranks = RandomRanks(random);
    PaddedLimits limits = Envelope(ranks).limits;
    limits.tokens *= 4;
    const Cuts scanned = SharedSortedScan(Views(ranks), limits);
    for (size_t runs = scanned.size() - 1; runs <= ranks[0].widths.size(); ++runs) {
      const Cuts cuts = HalveRuns(Views(ranks), scanned, runs);
      ASSERT_EQ(cuts.size(), runs + 1) << "seed " << seed;
      ASSERT_TRUE(std::ranges::includes(cuts, scanned)) << "seed " << seed;
      ASSERT_TRUE(std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) ==
                  cuts.end())
          << "seed " << seed;
    }
  }
}

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

TEST(OptimalSplitTest, CutsWhereTheWidthsJump) {
  // The scan fills the first run with the 9.
  const std::vector<uint32_t> widths = {1, 1, 9, 9, 9};
  const PaddedLimits limits = {.tokens = 27};
  EXPECT_THAT(SortedScan({.widths = widths}, limits), ElementsAre(0, 3, 5));
  EXPECT_THAT(OptimalSplit({.widths = widths}, limits, 2), ElementsAre(0, 2, 5));
}

TEST(OptimalSplitTest, OneRunEach) {
  const std::vector<uint32_t> widths = {2, 2, 2};
  EXPECT_THAT(OptimalSplit({.widths = widths}, {.tokens = 6}, 1), ElementsAre(0, 3));
  EXPECT_THAT(OptimalSplit({.widths = widths}, {.tokens = 6}, 3), ElementsAre(0, 1, 2, 3));
}

TEST(OptimalSplitTest, HasTheFewestTokensOfAllSplitsIntoAsManyRuns) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const RandomItems items(random, 11);
    std::vector<uint64_t> least(items.widths.size() + 1, kNever);
    for (const Cuts& cuts : AllSplits(items.view(), items.limits)) {
      uint64_t& tokens = least[cuts.size() - 1];
      tokens = std::min(tokens, TokensOf(cuts, items.view()));
    }
    const size_t fewest = SortedScan(items.view(), items.limits).size() - 1;
    for (size_t runs = fewest; runs <= items.widths.size(); ++runs) {
      const Cuts cuts = OptimalSplit(items.view(), items.limits, runs);
      ASSERT_EQ(cuts.size(), runs + 1) << "seed " << seed;
      ASSERT_TRUE(IsSplit(cuts, items.view(), items.limits)) << "seed " << seed << " runs " << runs;
      ASSERT_EQ(TokensOf(cuts, items.view()), least[runs]) << "seed " << seed << " runs " << runs;
    }
  }
}

// By dynamic programming over (runs, items), without using any structure. O(runs n^2).
uint64_t LeastTokens(const RandomItems& items, size_t runs) {
  const size_t count = items.widths.size();
  std::vector<uint64_t> least(count + 1, kNever);
  least[0] = 0;
  for (size_t run = 0; run < runs; ++run) {
    std::vector<uint64_t> next(count + 1, kNever);
    for (size_t end = 1; end <= count; ++end) {
      uint64_t sequences = 0;
      for (size_t begin = end; begin-- > 0;) {
        sequences += items.view().count(begin);
        if (!items.limits.Allow(sequences, items.widths[end - 1])) break;
        if (least[begin] == kNever) continue;
        next[end] = std::min(next[end], least[begin] + sequences * items.widths[end - 1]);
      }
    }
    least = std::move(next);
  }
  return least[count];
}

TEST(OptimalSplitTest, HasTheFewestTokensOfLargerInstancesToo) {
  for (const uint64_t seed : testing::Seeds(100)) {
    RandomStream random(seed);
    const RandomItems items(random, 80);
    const size_t fewest = SortedScan(items.view(), items.limits).size() - 1;
    const size_t runs = random.Between(fewest, std::min(items.widths.size(), fewest + 10));
    const Cuts cuts = OptimalSplit(items.view(), items.limits, runs);
    ASSERT_EQ(cuts.size(), runs + 1) << "seed " << seed;
    ASSERT_TRUE(IsSplit(cuts, items.view(), items.limits)) << "seed " << seed;
    ASSERT_EQ(TokensOf(cuts, items.view()), LeastTokens(items, runs)) << "seed " << seed;
  }
}

TEST(LevelSplitTest, WideSequencesStandAlone) {
  const std::vector<uint32_t> widths = {1, 1, 1, 1, 4, 8};
  const std::vector<uint64_t> costs(widths.begin(), widths.end());
  const PaddedItems items = {.widths = widths};
  EXPECT_THAT(LevelSplit(items, costs, {.tokens = 100}, 3), ElementsAre(0, 4, 5, 6));
  EXPECT_THAT(RunCosts(items, costs, {0, 4, 5, 6}), ElementsAre(4, 4, 8));
  EXPECT_THAT(LevelSplit(items, costs, {.tokens = 100}, 1), ElementsAre(0, 6));
  EXPECT_THAT(LevelSplit(items, costs, {.tokens = 100}, 6), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(LevelSplitTest, NoItemsAndItemsThatCostNothing) {
  EXPECT_THAT(LevelSplit({}, {}, {.tokens = 1}, 1), ElementsAre(0));
  const std::vector<uint32_t> widths = {1, 2, 3};
  const std::vector<uint64_t> costs(3, 0);
  EXPECT_EQ(LevelSplit({.widths = widths}, costs, {.tokens = 3}, 3).size(), 4);
}

TEST(LevelSplitTest, TheCostliestRunIsTheCheapestOfAllSplitsIntoAsManyRuns) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const RandomItems items(random, 11);
    const std::vector<uint64_t> costs = testing::CostsOf(items, random.Between(0, 3));
    std::vector<uint64_t> least(items.widths.size() + 1, std::numeric_limits<uint64_t>::max());
    for (const Cuts& cuts : testing::AllSplits(items.view(), items.limits)) {
      uint64_t& best = least[cuts.size() - 1];
      best = std::min(best, std::ranges::max(RunCosts(items.view(), costs, cuts)));
    }
    const size_t fewest = SortedScan(items.view(), items.limits).size() - 1;
    for (size_t runs = fewest; runs <= items.widths.size(); ++runs) {
      const Cuts cuts = LevelSplit(items.view(), costs, items.limits, runs);
      ASSERT_EQ(cuts.size(), runs + 1) << "seed " << seed;
      ASSERT_TRUE(IsSplit(cuts, items.view(), items.limits)) << "seed " << seed;
      ASSERT_EQ(std::ranges::max(RunCosts(items.view(), costs, cuts)), least[runs])
          << "seed " << seed << " runs " << runs;
    }
  }
}

TEST(SlotsTest, RunsOfSimilarCostShareASlot) {
  const std::vector<uint64_t> costs = {3, 9, 1, 9};
  EXPECT_EQ(LockstepCost(costs, 2), 12);
  EXPECT_EQ(LockstepCost(costs, 1), 22);
  EXPECT_EQ(LockstepCost(costs, 4), 9);
}

TEST(SlotsTest, ACutMovesToWhereSlotsCostLess) {
  const std::vector<uint32_t> widths = {1, 1, 1, 4, 4, 4};
  const std::vector<uint64_t> costs(widths.begin(), widths.end());
  // 1 1 1 4 | 4 4 cost 16 and 8.
  EXPECT_THAT(ImproveSlots({.widths = widths}, costs, {.tokens = 100}, 1, {0, 4, 6}, 1000),
              ElementsAre(0, 3, 6));
  EXPECT_THAT(ImproveSlots({.widths = widths}, costs, {.tokens = 100}, 1, {0, 4, 6}, 0),
              ElementsAre(0, 4, 6));
}

TEST(SlotsTest, LimitsAreKeptAndTheSumNeverRises) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const RandomItems items(random, 100);
    const std::vector<uint64_t> costs = testing::CostsOf(items, random.Between(0, 3));
    const size_t fewest = SortedScan(items.view(), items.limits).size() - 1;
    const auto ranks = static_cast<uint32_t>(random.Between(1, 6));
    const size_t runs = (fewest + ranks - 1) / ranks * ranks;
    if (runs > items.widths.size()) continue;
    const Cuts start = LevelSplit(items.view(), costs, items.limits, runs);
    const auto improve = [&] {
      return ImproveSlots(items.view(), costs, items.limits, ranks, start, 100'000);
    };
    const Cuts cuts = improve();
    ASSERT_EQ(cuts.size(), start.size()) << "seed " << seed;
    ASSERT_TRUE(IsSplit(cuts, items.view(), items.limits)) << "seed " << seed;
    ASSERT_LE(LockstepCost(RunCosts(items.view(), costs, cuts), ranks),
              LockstepCost(RunCosts(items.view(), costs, start), ranks))
        << "seed " << seed;
    ASSERT_EQ(cuts, improve()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace batchplan
