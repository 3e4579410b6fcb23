// Where nothing else is said, each case is what Megatron-LM's scheduler gives.

#include "server/planner/groups/megatron_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
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

Slots Described(const ContextProblem& problem, const std::optional<ContextSlots>& slots) {
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

Slots Schedule(const ContextProblem& problem) {
  Slots result = Described(problem, MegatronSlots(problem, Allowance()));
  if (std::ranges::count(problem.counts, 1u) == std::ssize(problem.counts)) {
    // Items of one sequence need no counts.
    ContextProblem uncounted = problem;
    uncounted.counts.clear();
    EXPECT_EQ(Described(problem, MegatronSlots(uncounted, Allowance())), result);
  }
  return result;
}

// A rank holds 100 tokens.
ContextProblem OnRanks(uint32_t pool, const std::vector<uint32_t>& lengths) {
  return ContextOfLengths(lengths, PoolOptions{.pool = pool, .budget = 100});
}

// Each of eight ranks holds 64 tokens.
ContextProblem OnEightRanks(const std::vector<uint32_t>& lengths) {
  return ContextOfLengths(lengths, PoolOptions{.pool = 8, .budget = 64});
}

TEST(MegatronSlotsTest, SlotsAreFilledInDescendingLength) {
  // The 200 open a group of two. The 140 take the other two, the 60 go beside them, and for the 50
  // there is no room.
  EXPECT_THAT(
      Schedule(OnRanks(4, {50, 200, 60, 140})),
      ElementsAre(ElementsAre(Group{2, {1}}, Group{2, {3, 2}}), ElementsAre(Group{4, {0}})));
  EXPECT_THAT(
      Schedule(OnEightRanks({192, 96, 64, 64, 64, 32, 32, 16, 16, 16})),
      ElementsAre(ElementsAre(Group{4, {0, 4}}, Group{2, {1, 5}}, Group{1, {2}}, Group{1, {3}}),
                  ElementsAre(Group{4, {6}}, Group{4, {7, 8, 9}})));
}

TEST(MegatronSlotsTest, SequencesGoWhereTheGreatestWorkStaysLeast) {
  // The 70 make 11,300 beside the 80 and 14,900 beside the 100, the 60 then 13,600 there.
  EXPECT_THAT(Schedule(ContextOfLengths({100, 80, 70, 60}, PoolOptions{.pool = 2, .budget = 1000})),
              ElementsAre(ElementsAre(Group{1, {0, 3}}, Group{1, {1, 2}})));
  // The 112 have 6,272 on two ranks. The 96 would make 9,216 on one, and have 4,608 on two.
  EXPECT_THAT(Schedule(OnRanks(4, {112, 96, 40})),
              ElementsAre(ElementsAre(Group{2, {0}}, Group{2, {1, 2}})));
}

TEST(MegatronSlotsTest, OfEqualMaximaTheFirstGroupOfTheSmallestSizeIsTaken) {
  // The greatest work is 20,000 wherever the 30 and the 29 go.
  EXPECT_THAT(Schedule(OnRanks(4, {200, 30, 29})),
              ElementsAre(ElementsAre(Group{2, {0}}, Group{2, {1, 2}})));
}

TEST(MegatronSlotsTest, IdleRanksDoubleTheFirstOfTheSmallestGroups) {
  EXPECT_THAT(Schedule(OnRanks(8, {350, 90, 80})),
              ElementsAre(ElementsAre(Group{4, {0}}, Group{2, {1}}, Group{2, {2}})));
  EXPECT_THAT(Schedule(OnRanks(8, {350, 90})),
              ElementsAre(ElementsAre(Group{4, {0}}, Group{4, {1}})));
  EXPECT_THAT(Schedule(OnRanks(6, {300})), ElementsAre(ElementsAre(Group{6, {0}})));
}

TEST(MegatronSlotsTest, WhereNoGroupCanBeDoubledOneTakesTheWholePool) {
  // Groups of four and two leave one of seven ranks. All seven hold 700.
  EXPECT_THAT(Schedule(OnRanks(7, {350, 182, 168, 154})),
              ElementsAre(ElementsAre(Group{7, {0, 1, 2}}), ElementsAre(Group{7, {3}})));
  // Here the scheduler itself fails, as it would double a group of two.
  EXPECT_THAT(Schedule(OnRanks(7, {140, 140, 140})), ElementsAre(ElementsAre(Group{7, {0, 1, 2}})));
}

TEST(MegatronSlotsTest, SizesBesideADroppedOneAreUsed) {
  // Groups of two exchange too much: the 150 have four ranks.
  ContextProblem problem = OnEightRanks({250, 150, 30});
  problem.sizes.erase(problem.sizes.begin() + 1);
  EXPECT_THAT(Schedule(problem), ElementsAre(ElementsAre(Group{4, {0}}, Group{4, {1, 2}})));
}

TEST(MegatronSlotsTest, TokensAreAlignedAsTheGroupAsks) {
  // On two ranks 131 and 69 are aligned to 132 and 72, and make 204 in place of 200. The scheduler,
  // given lengths that are not aligned, puts them into one group.
  EXPECT_THAT(Schedule(OnRanks(2, {131, 69})),
              ElementsAre(ElementsAre(Group{2, {0}}), ElementsAre(Group{2, {1}})));
  EXPECT_THAT(Schedule(OnRanks(2, {132, 68})), ElementsAre(ElementsAre(Group{2, {0, 1}})));
}

TEST(MegatronSlotsTest, IdleRanksTakeOverFromGroupsWithSeveralWhereNoneMayHaveThePool) {
  // The scheduler knows no greatest size. The second slot leaves one rank of three: it gets the 30,
  // which shared one with the 40.
  const ContextProblem problem =
      ContextOfLengths({150, 148, 40, 30}, PoolOptions{.pool = 3, .budget = 100, .max_size = 2});
  EXPECT_THAT(Schedule(problem), ElementsAre(ElementsAre(Group{2, {0}}, Group{1, {2}}),
                                             ElementsAre(Group{2, {1}}, Group{1, {3}})));
}

TEST(MegatronSlotsTest, SlotsAreCutUntilTheirNumberIsAllowed) {
  ContextProblem problem = OnEightRanks({192, 96, 64, 64, 64, 32, 32, 16, 16, 16});
  problem.slots.multiple = 3;
  EXPECT_THAT(
      Schedule(problem),
      ElementsAre(ElementsAre(Group{4, {0, 4}}, Group{2, {1, 5}}, Group{1, {2}}, Group{1, {3}}),
                  ElementsAre(Group{8, {7, 8, 9}}), ElementsAre(Group{8, {6}})));
  problem = OnRanks(2, {90, 50, 40});
  EXPECT_THAT(Schedule(problem), ElementsAre(ElementsAre(Group{1, {0}}, Group{1, {1, 2}})));
  problem.slots.multiple = 2;
  EXPECT_THAT(Schedule(problem),
              ElementsAre(ElementsAre(Group{2, {1, 2}}), ElementsAre(Group{2, {0}})));
  // With one group in each slot the scheduler fails, though one group has several sequences.
  problem.slots.multiple = 3;
  EXPECT_THAT(Schedule(problem), ElementsAre(ElementsAre(Group{2, {1}}), ElementsAre(Group{2, {2}}),
                                             ElementsAre(Group{2, {0}})));
  problem.slots.multiple = 4;
  EXPECT_THAT(Schedule(problem), ElementsAre());
}

TEST(MegatronSlotsTest, GroupsKeepToTheirNumberOfSequences) {
  ContextProblem problem = OnRanks(1, {50, 10, 9, 8});
  EXPECT_THAT(Schedule(problem), ElementsAre(ElementsAre(Group{1, {0, 1, 2, 3}})));
  problem.max_sequences = 2;
  EXPECT_THAT(Schedule(problem),
              ElementsAre(ElementsAre(Group{1, {0, 1}}), ElementsAre(Group{1, {2, 3}})));
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
