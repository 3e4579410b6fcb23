#include "server/planner/padded/rank_splits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/server/planner/padded/random_items.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::AllSplits;
using testing::IsSplit;
using testing::RandomItems;
using testing::RandomStream;

// Ranks with random items, under limits that hold all items.
struct SplitTask {
  std::vector<RandomItems> items;
  std::vector<std::vector<uint64_t>> costs;
  PaddedLimits limits;
  size_t slots = 0;  // for the rank that needs most

  SplitTask(RandomStream& random, size_t most_items) {
    const size_t count = random.Between(1, 4);
    const uint64_t squared = random.Between(0, 3);
    for (size_t rank = 0; rank < count; ++rank) {
      const RandomItems& own = items.emplace_back(random, most_items);
      costs.push_back(testing::CostsOf(own, squared));
      limits.tokens = std::max(limits.tokens, own.limits.tokens);
    }
    for (const RandomItems& own : items) {
      slots = std::max(slots, SortedScan(own.view(), limits).size() - 1);
    }
  }

  std::vector<RankSplit> Split() const {
    std::vector<RankSplit> splits;
    for (size_t rank = 0; rank < items.size(); ++rank) {
      const PaddedItems view = items[rank].view();
      splits.push_back(
          {.items = view,
           .costs = costs[rank],
           .cuts = LevelSplit(view, costs[rank], limits, std::min(slots, view.size()))});
    }
    return splits;
  }
};

TEST(RankSplitsTest, TheCostliestRunsOfAllRanksShareASlot) {
  const std::vector<uint32_t> widths = {1, 2, 9};
  const std::vector<uint64_t> costs = {1, 2, 9};
  const std::vector<RankSplit> splits = {
      {.items = {widths}, .costs = costs, .cuts = {0, 2, 3}},     // 4 and 9
      {.items = {widths}, .costs = costs, .cuts = {0, 1, 3}},     // 1 and 18
      {.items = {widths}, .costs = costs, .cuts = {0, 1, 2, 3}},  // 1, 2 and 9
      {}};
  EXPECT_EQ(LockstepCost(splits), 18 + 4 + 1);
}

TEST(RankSplitsTest, LimitsAreKeptAndTheSumNeverRises) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const SplitTask ranks(random, 100);
    const std::vector<RankSplit> start = ranks.Split();
    std::vector<RankSplit> splits = start;
    ImproveRankSlots(ranks.limits, 100'000, splits);
    for (size_t rank = 0; rank < splits.size(); ++rank) {
      ASSERT_EQ(splits[rank].cuts.size(), start[rank].cuts.size()) << "seed " << seed;
      ASSERT_TRUE(IsSplit(splits[rank].cuts, splits[rank].items, ranks.limits)) << "seed " << seed;
    }
    ASSERT_LE(LockstepCost(splits), LockstepCost(start)) << "seed " << seed;
    std::vector<RankSplit> again = start;
    ImproveRankSlots(ranks.limits, 100'000, again);
    for (size_t rank = 0; rank < splits.size(); ++rank) {
      ASSERT_EQ(again[rank].cuts, splits[rank].cuts) << "seed " << seed;
    }
    ImproveRankSlots(ranks.limits, 0, again = start);
    ASSERT_EQ(LockstepCost(again), LockstepCost(start)) << "seed " << seed;
  }
}

// The least LockstepCost over all splits of the ranks from `rank` on into at most `slots` runs.
uint64_t LeastCost(const SplitTask& ranks, std::vector<RankSplit>& splits, size_t rank) {
  if (rank == splits.size()) return LockstepCost(splits);
  uint64_t best = std::numeric_limits<uint64_t>::max();
  for (Cuts& cuts : AllSplits(splits[rank].items, ranks.limits)) {
    if (cuts.size() - 1 > ranks.slots) continue;
    splits[rank].cuts = std::move(cuts);
    best = std::min(best, LeastCost(ranks, splits, rank + 1));
  }
  return best;
}

TEST(RankSplitsTest, OfAFewItemsTheSumIsMostlyTheLeast) {
  double sum = 0;
  double tried = 0;
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    const SplitTask ranks(random, 6);
    std::vector<RankSplit> splits = ranks.Split();
    ImproveRankSlots(ranks.limits, 100'000, splits);
    const uint64_t found = LockstepCost(splits);
    std::vector<RankSplit> all = splits;
    const uint64_t best = LeastCost(ranks, all, 0);
    ASSERT_GE(found, best) << "seed " << seed;
    sum += static_cast<double>(found) / static_cast<double>(best);
    ++tried;
  }
  RecordProperty("mean_excess_per_mille", static_cast<int>(1000 * (sum / tried - 1)));
  EXPECT_LE(sum / tried, 1.03);
}

}  // namespace
}  // namespace batchplan
