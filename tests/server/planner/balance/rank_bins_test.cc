#include "server/planner/balance/rank_bins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/server/planner/balance/instances.h"

namespace batchplan {
namespace {

using testing::BalanceInstance;
using ::testing::ElementsAre;
using testing::RandomStream;

TEST(DealBinsTest, EachBinIsDealtOnceAndSlotsAreRunsOfTheSortedOrder) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    RandomStream random(seed);
    const auto ranks = static_cast<uint32_t>(random.Between(1, 8));
    const size_t slots = random.Between(1, 10);
    const size_t bins = random.Between(ranks * (slots - 1) + 1, ranks * slots);
    std::vector<uint64_t> loads(bins);
    for (uint64_t& load : loads) load = random.Between(0, random.OneOf<uint64_t>({0, 9, 100000}));
    const std::vector<uint32_t> bin_at = DealBins(loads, ranks, slots);
    std::vector<uint32_t> dealt = bin_at;
    std::sort(dealt.begin(), dealt.end());
    ASSERT_EQ(dealt.size(), ranks * slots);
    for (uint32_t place = 0; place < bins; ++place) ASSERT_EQ(dealt[place], place);
    ASSERT_TRUE(dealt.size() == bins || dealt[bins] >= bins);

    loads.resize(ranks * slots, 0);
    std::vector<uint64_t> load_at;
    for (uint32_t bin : bin_at) load_at.push_back(bin < bins ? loads[bin] : 0);
    ASSERT_EQ(testing::LockstepTime(load_at, ranks), testing::DealtLockstepTime(loads, ranks));
    // An empty bin is in the last slot.
    for (size_t place = 0; place < bin_at.size(); ++place) {
      if (bin_at[place] >= bins) {
        ASSERT_EQ(place % slots, slots - 1);
      }
    }
  }
}

TEST(DealBinsTest, TheHeaviestOfASlotGoesToTheRankThatHasHadLeast) {
  EXPECT_THAT(DealBins(std::vector<uint64_t>{9, 5, 4, 1}, 2, 2), ElementsAre(0, 3, 1, 2));
}

TEST(CountSharesTest, EveryRankHasAsManySequencesAndBinsKeepTheirLimits) {
  uint64_t shared = 0;
  const uint64_t cases = testing::Cases(4000);
  for (const uint64_t seed : testing::Seeds(4000)) {
    RandomStream random(seed);
    const BalanceInstance instance =
        testing::RandomBalance(random, {.counts = false, .equal_shares = random.Chance(50)});
    const SortedTask task = instance.task();
    const std::optional<Filling> filling =
        ShareCountsEqually(testing::FillingOf(task, instance.solution));
    if (!filling) continue;
    ++shared;
    const Bins bins = testing::BinsOf(*filling);
    ASSERT_EQ(testing::Fault(instance, bins), "") << instance.Describe();
    for (uint64_t count : testing::RankCounts(instance, bins)) {
      ASSERT_GE(count, task.size() / task.ranks) << instance.Describe();
      ASSERT_LE(count, (task.size() + task.ranks - 1) / task.ranks) << instance.Describe();
    }
  }
  RecordProperty("shared_percent", std::to_string(100 * shared / cases));
  EXPECT_GT(shared, cases / 2);
}

TEST(CountSharesTest, BinsWhoseCountsComeOutAreKeptWhole) {
  // Slots of four and two sequences on one rank, two and four on the other.
  const std::vector<uint32_t> lengths(12, 1);
  std::vector<uint64_t> costs(12, 10);
  BalanceInstance instance{
      .lengths = lengths, .costs = costs, .limits = {.capacity = 10}, .ranks = 2, .slots = 2};
  for (const std::vector<uint32_t>& bin :
       std::vector<std::vector<uint32_t>>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}, {10, 11}}) {
    instance.solution.Add(bin);
  }
  const SortedTask task = instance.task();
  const std::optional<Filling> filling =
      ShareCountsEqually(testing::FillingOf(task, instance.solution));
  ASSERT_TRUE(filling.has_value());
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(filling->Members(2 * rank).size() + filling->Members(2 * rank + 1).size(), 6);
    EXPECT_EQ((*filling)[2 * rank].cost, 40);
    EXPECT_EQ((*filling)[2 * rank + 1].cost, 20);
  }
}

TEST(CountSharesTest, ASequenceIsMovedWhereOneMayCome) {
  // Ranks of 3 + 3 and 3 + 1 sequences. Of the second's bins the roomier one may take no more.
  BalanceInstance instance{.lengths = {1, 1, 1, 1, 1, 1, 15, 1, 1, 1},
                           .costs = {30, 30, 30, 30, 30, 30, 10, 5, 5, 5},
                           .limits = {.capacity = 20, .max_sequences = 3},
                           .ranks = 2,
                           .slots = 2};
  for (const std::vector<uint32_t>& bin :
       std::vector<std::vector<uint32_t>>{{0, 1, 2}, {3, 4, 5}, {7, 8, 9}, {6}}) {
    instance.solution.Add(bin);
  }
  const SortedTask task = instance.task();
  const std::optional<Filling> filling =
      ShareCountsEqually(testing::FillingOf(task, instance.solution));
  ASSERT_TRUE(filling.has_value());
  const Bins bins = testing::BinsOf(*filling);
  EXPECT_EQ(testing::Fault(instance, bins), "");
  EXPECT_EQ(testing::RankCounts(instance, bins), (std::vector<uint64_t>{5, 5}));
}

}  // namespace
}  // namespace batchplan
