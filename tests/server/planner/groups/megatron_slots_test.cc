// Each case is what Megatron-LM's scheduler does by its rules, worked out by hand.

#include "server/planner/groups/megatron_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "tests/server/planner/groups/problems.h"

namespace batchplan {
namespace {

using testing::ContextOfLengths;
using ::testing::ElementsAre;
using testing::PoolOptions;
using Members = std::vector<uint32_t>;
// The ranks of a group, and its items.
using Group = std::pair<uint32_t, Members>;
using Slots = std::vector<std::vector<Group>>;

Slots Schedule(const ContextProblem& problem) {
  const std::optional<ContextSlots> slots = MegatronSlots(problem, Allowance());
  Slots result;
  if (!slots) return result;
  EXPECT_EQ(testing::FaultOf(problem, *slots), "");
  for (const auto& slot : *slots) {
    result.emplace_back();
    for (const ContextGroup& group : slot) {
      result.back().emplace_back(problem.sizes[group.size].ranks, group.items);
    }
  }
  return result;
}

// A rank holds 100 tokens.
ContextProblem OnRanks(uint32_t pool, const std::vector<uint32_t>& lengths) {
  return ContextOfLengths(lengths, PoolOptions{.pool = pool, .budget = 100});
}

TEST(MegatronSlotsTest, SlotsAreFilledInDescendingLength) {
  // The 200 open a group of two, and no group may have more than 1.05 * 200^2 / 2 = 21,000. The 140
  // (9,800) take the other two, the 60 go beside them (11,600), and for the 50 there is no room.
  EXPECT_THAT(
      Schedule(OnRanks(4, {50, 200, 60, 140})),
      ElementsAre(ElementsAre(Group{2, {1}}, Group{2, {3, 2}}), ElementsAre(Group{4, {0}})));
}

TEST(MegatronSlotsTest, WhatWouldPassTheBoundWaits) {
  // The bound is 1.05 * 100^2 = 10,500. The 70 would make 14,900 or 11,300, the 60 make 10,000.
  const ContextProblem problem =
      ContextOfLengths({100, 80, 70, 60}, PoolOptions{.pool = 2, .budget = 1000});
  EXPECT_THAT(Schedule(problem), ElementsAre(ElementsAre(Group{1, {0}}, Group{1, {1, 3}}),
                                             ElementsAre(Group{2, {2}})));
}

TEST(MegatronSlotsTest, OfEqualMaximaTheSmallestSizeIsTaken) {
  // Two ranks would leave the greatest work at 20,000 too.
  EXPECT_THAT(Schedule(OnRanks(4, {200, 30, 29})),
              ElementsAre(ElementsAre(Group{2, {0}}, Group{1, {1}}, Group{1, {2}})));
}

TEST(MegatronSlotsTest, IdleRanksDoubleTheFirstOfTheSmallestGroups) {
  EXPECT_THAT(Schedule(OnRanks(8, {350, 90, 80})),
              ElementsAre(ElementsAre(Group{4, {0}}, Group{2, {1}}, Group{2, {2}})));
  EXPECT_THAT(Schedule(OnRanks(8, {350, 90})),
              ElementsAre(ElementsAre(Group{4, {0}}, Group{4, {1}})));
}

TEST(MegatronSlotsTest, WhereNoGroupCanBeDoubledOneTakesTheWholePool) {
  EXPECT_THAT(Schedule(OnRanks(6, {300})), ElementsAre(ElementsAre(Group{6, {0}})));
}

TEST(MegatronSlotsTest, IdleRanksTakeOverFromGroupsWithSeveral) {
  // Of three ranks the second slot leaves one: it gets the 30, which shared one with the 40.
  EXPECT_THAT(Schedule(OnRanks(3, {150, 148, 40, 30})),
              ElementsAre(ElementsAre(Group{2, {0}}, Group{1, {2}}),
                          ElementsAre(Group{2, {1}}, Group{1, {3}})));
}

TEST(MegatronSlotsTest, SlotsAreDividedUntilTheirNumberIsAllowed) {
  ContextProblem problem = OnRanks(2, {90, 50, 40});
  EXPECT_THAT(Schedule(problem), ElementsAre(ElementsAre(Group{1, {0}}, Group{1, {1, 2}})));
  problem.slots.multiple = 2;
  EXPECT_THAT(Schedule(problem),
              ElementsAre(ElementsAre(Group{1, {0}}, Group{1, {2}}), ElementsAre(Group{2, {1}})));
  // The 50 can't be divided any more, but the 90 and the 40 can.
  problem.slots.multiple = 3;
  EXPECT_THAT(Schedule(problem), ElementsAre(ElementsAre(Group{2, {0}}), ElementsAre(Group{2, {2}}),
                                             ElementsAre(Group{2, {1}})));
  problem.slots.multiple = 4;
  EXPECT_THAT(Schedule(problem), ElementsAre());
}

TEST(MegatronSlotsTest, GroupsKeepToTheirNumberOfSequences) {
  ContextProblem problem = OnRanks(1, {50, 10, 9, 8});
  problem.max_sequences = 2;
  // 9^2 + 8^2 is above 1.05 * 9^2.
  EXPECT_THAT(Schedule(problem),
              ElementsAre(ElementsAre(Group{1, {0, 1}}), ElementsAre(Group{1, {2}}),
                          ElementsAre(Group{1, {3}})));
}

TEST(MegatronSlotsTest, TooFewSequencesForTheRanksFindNoSlotsUnlessGroupsMayBeEmpty) {
  ContextProblem problem =
      ContextOfLengths({50}, PoolOptions{.pool = 4, .budget = 100, .max_size = 2});
  EXPECT_THAT(Schedule(problem), ElementsAre());
  problem.allow_empty = true;
  EXPECT_THAT(Schedule(problem), ElementsAre(ElementsAre(Group{2, {0}}, Group{2, {}})));
}

TEST(MegatronSlotsTest, WhatAlignmentMakesTooLongForThePoolGetsNone) {
  // A pair of 2 tokens has 4 on one rank, which holds 4, and 8 on two, which hold 4 too.
  const ContextProblem problem =
      testing::ContextOf({{2, 2}, {2, 2}, {2, 2}}, PoolOptions{.pool = 2, .budget = 4});
  ContextProblem tight = problem;
  tight.sizes[1].capacity = 4;
  EXPECT_THAT(Schedule(tight), ElementsAre());
  EXPECT_THAT(Schedule(problem),
              ElementsAre(ElementsAre(Group{1, {0}}, Group{1, {1}}), ElementsAre(Group{2, {2}})));
}

TEST(MegatronSlotsTest, BeyondTheMostVisitsThereAreNone) {
  const ContextProblem problem = OnRanks(4, {50, 60, 70, 80});
  EXPECT_TRUE(MegatronSlots(problem, Allowance(), 100));
  EXPECT_FALSE(MegatronSlots(problem, Allowance(), 3));
}

TEST(MegatronSlotsTest, OnceAStopIsRequestedThereAreNone) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(MegatronSlots(OnRanks(4, {50, 60}), Allowance(stop.get_token())));
}

}  // namespace
}  // namespace batchplan
