#include "server/planner/balance/count_shares.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/server/planner/balance/instances.h"

namespace batchplan {
namespace {

using testing::BalanceInstance;
using testing::RandomStream;

TEST(CountSharesTest, EveryRankHasAsManySequencesAndBinsKeepTheirLimits) {
  uint64_t shared = 0;
  const uint64_t cases = testing::Cases(4000);
  for (const uint64_t seed : testing::Seeds(4000)) {
    RandomStream random(seed);
    const BalanceInstance instance =
        testing::RandomBalance(random, {.counts = false, .equal_shares = true});
    const Problem problem = instance.problem();
    const std::optional<Filling> filling =
        ShareCountsEqually(testing::FillingOf(problem, instance.solution));
    if (!filling) continue;
    ++shared;
    const Bins bins = testing::BinsOf(*filling);
    ASSERT_EQ(testing::Fault(instance, bins), "") << instance.Describe();
    for (uint64_t count : testing::RankCounts(instance, bins)) {
      ASSERT_EQ(count, problem.size() / problem.ranks) << instance.Describe();
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
  const Problem problem = instance.problem();
  const std::optional<Filling> filling =
      ShareCountsEqually(testing::FillingOf(problem, instance.solution));
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
  const Problem problem = instance.problem();
  const std::optional<Filling> filling =
      ShareCountsEqually(testing::FillingOf(problem, instance.solution));
  ASSERT_TRUE(filling.has_value());
  const Bins bins = testing::BinsOf(*filling);
  EXPECT_EQ(testing::Fault(instance, bins), "");
  EXPECT_EQ(testing::RankCounts(instance, bins), (std::vector<uint64_t>{5, 5}));
}

}  // namespace
}  // namespace batchplan
