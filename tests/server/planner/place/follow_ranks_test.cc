#include "server/planner/place/follow_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/server/planner/groups/problems.h"

namespace batchplan {
namespace {

using testing::ContextOfLengths;
using ::testing::ElementsAre;
using testing::FaultOf;
using testing::PoolOptions;
using Numbers = std::vector<uint32_t>;

// The ranks of each group, by slot.
std::vector<std::vector<uint32_t>> RanksOf(const ContextProblem& problem,
                                           const ContextSlots& slots) {
  std::vector<std::vector<uint32_t>> ranks;
  for (const auto& slot : slots) {
    ranks.emplace_back();
    for (const ContextGroup& group : slot) {
      ranks.back().push_back(problem.sizes[group.size].ranks);
    }
  }
  return ranks;
}

std::vector<std::vector<Numbers>> ItemsOf(const ContextSlots& slots) {
  std::vector<std::vector<Numbers>> items;
  for (const auto& slot : slots) {
    items.emplace_back();
    for (const ContextGroup& group : slot) items.back().push_back(group.items);
  }
  return items;
}

// The indexes of the sizes in a pool of four ranks.
enum Size : uint32_t { kOfOne = 0, kOfTwo = 1, kOfFour = 2 };

// On four ranks, two slots of 2 + 1 + 1: sequences 0 and 3 are on the first two ranks, 1 and 4 on
// the third, 2 and 5 on the last.
const std::vector<uint32_t> kLengths = {100, 40, 20, 60, 30, 10};
const ContextSlots kTwoSlots = {{{kOfTwo, {0}}, {kOfOne, {1}}, {kOfOne, {2}}},
                                {{kOfTwo, {3}}, {kOfOne, {4}}, {kOfOne, {5}}}};

TEST(FollowRanksTest, SlotsAreJoinedWhereTheLimitsAreWider) {
  // A rank holds 100 tokens: 160 of the 200 on two, 70 and 30 on one.
  const ContextProblem problem = ContextOfLengths(kLengths, PoolOptions{.pool = 4, .budget = 100});
  const std::optional<ContextSlots> slots = FollowRanks(problem, kTwoSlots);
  ASSERT_TRUE(slots);
  EXPECT_EQ(FaultOf(problem, *slots), "");
  EXPECT_THAT(RanksOf(problem, *slots), ElementsAre(ElementsAre(2, 1, 1)));
  EXPECT_THAT(ItemsOf(*slots),
              ElementsAre(ElementsAre(Numbers{0, 3}, Numbers{1, 4}, Numbers{2, 5})));
}

TEST(FollowRanksTest, WhereOnePlaceIsSplitAllAre) {
  // 60 + 56 are more than the 100 of two ranks; the others would fit together.
  const ContextProblem problem =
      ContextOfLengths({60, 56, 20, 10, 8, 4}, PoolOptions{.pool = 4, .budget = 50});
  const std::optional<ContextSlots> slots =
      FollowRanks(problem, {{{kOfTwo, {0, 1}}, {kOfOne, {2, 3}}, {kOfOne, {4, 5}}}});
  ASSERT_TRUE(slots);
  EXPECT_EQ(FaultOf(problem, *slots), "");
  EXPECT_THAT(ItemsOf(*slots), ElementsAre(ElementsAre(Numbers{0}, Numbers{2}, Numbers{4}),
                                           ElementsAre(Numbers{1}, Numbers{3}, Numbers{5})));
}

TEST(FollowRanksTest, APlaceIsEvenedOutByCost) {
  // 272 tokens on four ranks that hold 160 together: 80 + 56 and 72 + 64, the costlier first.
  const ContextProblem problem =
      ContextOfLengths({80, 72, 64, 56}, PoolOptions{.pool = 4, .budget = 40});
  const std::optional<ContextSlots> slots = FollowRanks(problem, {{{kOfFour, {0, 1, 2, 3}}}});
  ASSERT_TRUE(slots);
  EXPECT_EQ(FaultOf(problem, *slots), "");
  EXPECT_THAT(ItemsOf(*slots), ElementsAre(ElementsAre(Numbers{0, 3}), ElementsAre(Numbers{1, 2})));
}

TEST(FollowRanksTest, SlotsOfOtherSizesStayApart) {
  const ContextProblem problem =
      ContextOfLengths({100, 80, 60, 40}, PoolOptions{.pool = 4, .budget = 100});
  const std::optional<ContextSlots> slots =
      FollowRanks(problem, {{{kOfFour, {0}}}, {{kOfTwo, {1}}, {kOfTwo, {2}}}, {{kOfFour, {3}}}});
  ASSERT_TRUE(slots);
  EXPECT_EQ(FaultOf(problem, *slots), "");
  EXPECT_THAT(RanksOf(problem, *slots), ElementsAre(ElementsAre(4), ElementsAre(2, 2)));
  EXPECT_THAT(ItemsOf(*slots),
              ElementsAre(ElementsAre(Numbers{0, 3}), ElementsAre(Numbers{1}, Numbers{2})));
}

TEST(FollowRanksTest, ThereAreAsManySlotsAsTheRuleAsksFor) {
  ContextProblem problem = ContextOfLengths(kLengths, PoolOptions{.pool = 4, .budget = 100});
  problem.slots.multiple = 2;
  const std::optional<ContextSlots> slots = FollowRanks(problem, kTwoSlots);
  ASSERT_TRUE(slots);
  EXPECT_THAT(ItemsOf(*slots), ElementsAre(ElementsAre(Numbers{0}, Numbers{1}, Numbers{2}),
                                           ElementsAre(Numbers{3}, Numbers{4}, Numbers{5})));
  // Three would leave groups empty, as every place has two items.
  problem.slots = {.minimum = 3, .multiple = 1};
  EXPECT_FALSE(FollowRanks(problem, kTwoSlots));
  problem.allow_empty = true;
  const std::optional<ContextSlots> with_empty = FollowRanks(problem, kTwoSlots);
  ASSERT_TRUE(with_empty);
  EXPECT_EQ(with_empty->size(), 3u);
  EXPECT_EQ(FaultOf(problem, *with_empty), "");
}

TEST(FollowRanksTest, APlaceWithTooFewItemsGetsEmptyGroupsOrNoSlotsAreFound) {
  // The first place needs two groups, and the second has one item.
  ContextProblem problem = ContextOfLengths({60, 56, 20}, PoolOptions{.pool = 4, .budget = 50});
  const ContextSlots lead = {{{kOfTwo, {0, 1}}, {kOfTwo, {2}}}};
  EXPECT_FALSE(FollowRanks(problem, lead));
  problem.allow_empty = true;
  const std::optional<ContextSlots> slots = FollowRanks(problem, lead);
  ASSERT_TRUE(slots);
  EXPECT_THAT(ItemsOf(*slots),
              ElementsAre(ElementsAre(Numbers{0}, Numbers{2}), ElementsAre(Numbers{1}, Numbers{})));
}

TEST(FollowRanksTest, NoSlotsAreFoundWhereTheRanksHoldNoItemOrTheirNumberIsNoSize) {
  // 120 tokens are too many for the two ranks that lead has them on.
  const ContextProblem problem = ContextOfLengths({120, 20}, PoolOptions{.pool = 4, .budget = 50});
  EXPECT_FALSE(FollowRanks(problem, {{{kOfTwo, {0}}, {kOfTwo, {1}}}}));
  EXPECT_TRUE(FollowRanks(problem, {{{kOfFour, {0, 1}}}}));
  const ContextProblem from_two =
      ContextOfLengths({20, 20, 20}, PoolOptions{.pool = 4, .budget = 50, .min_size = 2});
  const auto no_size = static_cast<uint32_t>(from_two.sizes.size());
  EXPECT_FALSE(FollowRanks(from_two, {{{0, {0}}, {no_size, {1}}, {no_size, {2}}}}));
}

TEST(FollowRanksTest, GroupsKeepToTheirNumberOfSequences) {
  ContextProblem problem =
      ContextOfLengths({40, 30, 20, 10}, PoolOptions{.pool = 1, .budget = 100});
  problem.max_sequences = 2;
  const std::optional<ContextSlots> slots = FollowRanks(problem, {{{kOfOne, {0, 1, 2, 3}}}});
  ASSERT_TRUE(slots);
  EXPECT_EQ(FaultOf(problem, *slots), "");
  EXPECT_THAT(ItemsOf(*slots), ElementsAre(ElementsAre(Numbers{0, 3}), ElementsAre(Numbers{1, 2})));
}

}  // namespace
}  // namespace batchplan
