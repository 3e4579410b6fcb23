#include "server/planner/groups/lockstep_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "server/planner/groups/lockstep_groups.h"
#include "server/planner/pass/context_time.h"
#include "tests/server/planner/groups/problems.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::ContextOfLengths;
using testing::Describe;
using testing::FaultOf;
using testing::PoolOptions;
using testing::RandomStream;

// Lengths that fit a rank of 1024 tokens, and `longer` lengths that fit two to four.
std::vector<uint32_t> MostlyShort(RandomStream& random, size_t count, size_t longer) {
  std::vector<uint32_t> lengths;
  for (size_t i = 0; i < count; ++i) {
    lengths.push_back(static_cast<uint32_t>(random.Between(1, 700)));
  }
  for (size_t i = 0; i < longer; ++i) {
    lengths[random.Between(0, count - 1)] = static_cast<uint32_t>(random.Between(1025, 4096));
  }
  return lengths;
}

TEST(LockstepRanksTest, SlotsKeepTheRulesAndLargeGroupsHoldWhatFitsNoRank) {
  uint64_t alone = 0;
  uint64_t filled = 0;
  for (const uint64_t seed : testing::Seeds(300)) {
    RandomStream random(seed);
    PoolOptions options = {.pool = static_cast<uint32_t>(random.OneOf<uint32_t>({4, 6, 8, 12, 16})),
                           .budget = 1024,
                           .exchange = random.OneOf<uint64_t>({0, 65, 260}),
                           .per_microbatch = random.OneOf<Cost>({0, 100'000})};
    ContextProblem problem = ContextOfLengths(
        MostlyShort(random, random.Between(64, 300), random.Between(1, 5)), options);
    problem.slots.multiple = random.OneOf<uint64_t>({1, 1, 2, 3});
    problem.effort = random.OneOf<Effort>({Effort::kFast, Effort::kDefault});
    const ContextItems all(problem);
    for (const LargeGroups large : {LargeGroups::kAlone, LargeGroups::kFilled}) {
      const std::vector<FilledSlot> slots = LockstepOnRanks(all, large, {});
      if (slots.empty()) continue;
      bool has_company = false;
      ASSERT_EQ(FaultOf(problem, ToContextSlots(all, slots)), "")
          << "seed " << seed << ": " << Describe(problem);
      for (const FilledSlot& slot : slots) {
        for (const FilledGroup& group : slot) {
          if (group.size == 0) continue;
          has_company |= group.items.size() > 1;
          EXPECT_TRUE(std::ranges::any_of(
              group.items, [&](uint32_t item) { return !all.MayTake(group.size - 1, item); }))
              << "seed " << seed;
          if (large == LargeGroups::kAlone) {
            EXPECT_EQ(group.items.size(), 1u) << "seed " << seed;
          }
        }
      }
      alone += large == LargeGroups::kAlone;
      filled += has_company;
    }
  }
  EXPECT_GT(alone, 0u);
  EXPECT_GT(filled, 0u);
}

TEST(LockstepRanksTest, OneLongItemCostsTheOthersNothing) {
  std::vector<uint32_t> lengths = testing::ZipfLengths(2048, 1);
  *std::ranges::max_element(lengths) = 9000;
  const ContextProblem problem = ContextOfLengths(
      lengths,
      PoolOptions{.pool = 8, .budget = 8192, .exchange = 65, .per_microbatch = 1024 * 24576});
  const ContextItems all(problem);
  const std::vector<FilledSlot> slots = LockstepOnRanks(all, LargeGroups::kFilled, {});
  ASSERT_FALSE(slots.empty());
  const Cost bound = ContextBound(problem);
  EXPECT_LE(LockstepTime(all, slots), bound + bound / 1000);
}

TEST(LockstepRanksTest, WhereAllFitThereAreGroupsOfOneSizeAndWhereMostDoNotThereIsNothing) {
  const PoolOptions options = {.pool = 4, .budget = 1024};
  const ContextProblem fit = ContextOfLengths(std::vector<uint32_t>(100, 500), options);
  const std::vector<FilledSlot> slots = LockstepOnRanks(ContextItems(fit), LargeGroups::kAlone, {});
  ASSERT_FALSE(slots.empty());
  for (const FilledSlot& slot : slots) EXPECT_EQ(slot.size(), 4u);
  const ContextProblem too_long = ContextOfLengths(std::vector<uint32_t>(100, 1500), options);
  EXPECT_TRUE(LockstepOnRanks(ContextItems(too_long), LargeGroups::kAlone, {}).empty());
}

TEST(LockstepRanksTest, DissolvingASlotKeepsItsItemsAndTheRoomOfTheOthers) {
  uint64_t dissolved = 0;
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    ContextProblem problem = ContextOfLengths(MostlyShort(random, random.Between(40, 200), 1),
                                              PoolOptions{.pool = 4, .budget = 1024});
    // More slots than the tokens need, so that other slots have room.
    problem.slots.minimum = problem.items() / 6;
    const ContextItems all(problem);
    std::vector<FilledSlot> slots = LockstepOnRanks(all, LargeGroups::kAlone, {});
    if (slots.size() < 2) continue;
    problem.slots.minimum = 1;
    const size_t before = slots.size();
    if (!DissolveShortest(all, {}, slots)) continue;
    ++dissolved;
    EXPECT_EQ(slots.size(), before - 1);
    EXPECT_EQ(FaultOf(problem, ToContextSlots(all, slots)), "") << "seed " << seed;
  }
  EXPECT_GT(dissolved, 0u);
}

}  // namespace
}  // namespace batchplan
