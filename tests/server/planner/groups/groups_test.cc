// Each step of the solver of context groups by itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "server/planner/groups/accumulated_groups.h"
#include "server/planner/groups/context_items.h"
#include "server/planner/groups/even_out_groups.h"
#include "server/planner/groups/fill_in_turn.h"
#include "server/planner/groups/fill_slots.h"
#include "server/planner/groups/filled_groups.h"
#include "server/planner/groups/lockstep_groups.h"
#include "server/planner/pass/context_time.h"
#include "tests/server/planner/groups/problems.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::ContextOfLengths;
using testing::FaultOf;
using testing::PoolOptions;

ContextProblem Maths(size_t count, uint64_t exchange) {
  return ContextOfLengths(testing::MathsLengths(count, 1),
                          PoolOptions{.pool = 16, .budget = 4096, .exchange = exchange});
}

std::vector<uint32_t> Everything(const ContextItems& all) {
  std::vector<uint32_t> items(all.size());
  std::iota(items.begin(), items.end(), 0u);
  return items;
}

TEST(UseFreeRanksTest, TheSlowestGroupsAreDividedOrGetLarger) {
  const ContextProblem problem = ContextOfLengths({64, 64, 8}, PoolOptions{.pool = 4});
  const ContextItems all(problem);
  FilledSlot slot = {{.size = 0}};
  for (const uint32_t item : Everything(all)) slot.front().Add(all, item);
  ASSERT_TRUE(UseFreeRanks(all, 3, slot));
  // Sizes of one, one and two ranks for 64 | 64 | 8 would not change the slowest.
  ASSERT_EQ(slot.size(), 3u);
  uint64_t ranks = 0;
  for (const FilledGroup& group : slot) ranks += all.ranks(group.size);
  EXPECT_EQ(ranks, 4u);
}

TEST(UseFreeRanksTest, FailsWhereThereIsTooLittleToGiveEveryRankSomething) {
  const ContextProblem problem = ContextOfLengths({64}, PoolOptions{.pool = 4, .max_size = 2});
  const ContextItems all(problem);
  FilledSlot slot = {{.size = 0}};
  slot.front().Add(all, 0);
  EXPECT_FALSE(UseFreeRanks(all, 3, slot));
}

TEST(SlotFillerTest, KeepsWithinTheTimeAndLeavesTheItemsThatItUses) {
  const ContextProblem problem = Maths(500, 260);
  const ContextItems all(problem);
  IndexSet left(all.size());
  for (uint32_t item = 0; item < all.size(); item += 2) left.Insert(item);
  SlotFiller filler(all, left);
  for (const SlotFill fill : {SlotFill::kOpenFirst, SlotFill::kBestFit}) {
    const Cost most = all.cost(2, 0);
    ASSERT_TRUE(filler.Fill(most, fill));
    for (uint32_t item = 0; item < all.size(); ++item) {
      EXPECT_EQ(left.Contains(item), item % 2 == 0) << item;
    }
    std::vector<uint32_t> placed;
    for (const auto& [item, group] : filler.placed()) placed.push_back(item);
    std::sort(placed.begin(), placed.end());
    const Cost slowest = filler.slowest();
    const size_t groups = filler.groups();
    const FilledSlot slot = filler.Take();
    EXPECT_EQ(slot.size(), groups);
    EXPECT_EQ(SlowestTime(slot), slowest);
    EXPECT_LE(slowest, most);
    std::vector<uint32_t> items;
    for (const FilledGroup& group : slot) {
      FilledGroup anew;
      ASSERT_TRUE(Regroup(all, group.items, group.size, anew));
      EXPECT_EQ(group.time, anew.time);
      EXPECT_EQ(group.tokens, anew.tokens);
      EXPECT_EQ(group.sequences, anew.sequences);
      items.insert(items.end(), group.items.begin(), group.items.end());
    }
    std::sort(items.begin(), items.end());
    EXPECT_EQ(items, placed);
    EXPECT_EQ(items.front(), 0);
    for (const uint32_t item : items) EXPECT_TRUE(left.Contains(item));
  }
}

TEST(SlotFillerTest, LeavesEverythingWhereTheLongestItemTakesLonger) {
  const ContextProblem problem = Maths(50, 0);
  const ContextItems all(problem);
  IndexSet left(all.size());
  for (uint32_t item = 0; item < all.size(); ++item) left.Insert(item);
  const Cost most = all.cost(all.sizes() - 1, 0) - 1;
  EXPECT_FALSE(SlotFiller(all, left).Fill(most, SlotFill::kOpenFirst));
  for (uint32_t item = 0; item < all.size(); ++item) EXPECT_TRUE(left.Contains(item));
}

TEST(FillInTurnTest, FewerSlotsComeOfSlotsThatCostMore) {
  const ContextProblem problem = Maths(1000, 65);
  const ContextItems all(problem);
  const auto slots = [&](Cost per_slot) {
    const std::vector<FilledSlot> filled =
        FillInTurn(all, Everything(all), {.per_slot = per_slot}, Allowance());
    EXPECT_EQ(FaultOf(problem, ToContextSlots(all, filled)), "");
    return filled.size();
  };
  EXPECT_LT(slots(100 * all.cost(0, 0)), slots(0));
}

TEST(LeastEvenSlotsTest, AreAsManyAsAskedFor) {
  const ContextProblem problem = Maths(1000, 65);
  const ContextItems all(problem);
  const uint64_t fewest = FewestContextSlots(problem);
  const std::vector<FilledSlot> slots =
      LeastEvenSlots(all, Everything(all), fewest + 2, Allowance());
  ASSERT_EQ(slots.size(), fewest + 2);
  EXPECT_EQ(FaultOf(problem, ToContextSlots(all, slots)), "");
}

TEST(EvenOutGroupsTest, IsNeverSlowerAndKeepsTheLimits) {
  const ContextProblem problem = Maths(1000, 65);
  const ContextItems all(problem);
  std::vector<FilledSlot> slots =
      LeastEvenSlots(all, Everything(all), FewestContextSlots(problem) + 1, Allowance());
  ASSERT_FALSE(slots.empty());
  // The first group gives everything that it can to the last one.
  FilledGroup& from = slots.front().front();
  FilledGroup& to = slots.back().back();
  while (from.items.size() > 1 && to.Holds(all, from.items.back())) {
    to.Add(all, from.items.back());
    from.Remove(all, from.items.size() - 1);
  }
  const Cost before = LockstepTime(all, slots);
  const Cost time = EvenOutGroups(all, 100'000, Allowance(), slots);
  EXPECT_LT(time, before);
  EXPECT_EQ(time, LockstepTime(all, slots));
  EXPECT_EQ(FaultOf(problem, ToContextSlots(all, slots)), "");
}

TEST(FillAccumulatedTest, NoRankWaitsForAnother) {
  ContextProblem problem = Maths(1000, 260);
  problem.synchronization = Synchronization::kAccumulated;
  const ContextItems all(problem);
  const std::vector<FilledSlot> slots = FillAccumulated(
      all, FewestContextSlots(problem) + 4, ContextBound(problem), 100'000, Allowance());
  ASSERT_FALSE(slots.empty());
  const ContextSlots result = ToContextSlots(all, slots);
  ASSERT_EQ(FaultOf(problem, result), "");
  std::vector<Cost> busy(problem.pool, 0);
  for (const auto& slot : result) {
    uint32_t rank = 0;
    for (const ContextGroup& group : slot) {
      const Cost cost = ContextGroupCost(problem, group);
      for (uint32_t i = 0; i < problem.sizes[group.size].ranks; ++i) busy[rank++] += cost;
    }
  }
  EXPECT_EQ(ContextTime(problem, result), *std::max_element(busy.begin(), busy.end()));
}

}  // namespace
}  // namespace batchplan
