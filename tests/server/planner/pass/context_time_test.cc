#include "server/planner/pass/context_time.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/server/planner/groups/best_slots.h"
#include "tests/server/planner/groups/problems.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::ContextOfLengths;
using testing::Describe;
using testing::PoolOptions;
using testing::RandomStream;

// Three items that cost 6 on one rank and 4 on two.
ContextProblem ThreeItems() {
  ContextProblem problem = {.pool = 2, .per_microbatch = 1};
  problem.sizes = {{.ranks = 1, .capacity = 10, .tokens = {4, 4, 4}, .costs = {6, 6, 6}},
                   {.ranks = 2, .capacity = 20, .tokens = {4, 4, 4}, .costs = {4, 4, 4}}};
  return problem;
}

TEST(ContextTimeTest, InLockstepEverySlotTakesAsLongAsItsSlowestGroup) {
  const ContextSlots slots = {{{.size = 0, .items = {0, 1}}, {.size = 0, .items = {2}}}};
  EXPECT_EQ(ContextTime(ThreeItems(), slots), 13u);
}

TEST(ContextTimeTest, AccumulatedAGroupBeginsWhenTheLastOfItsRanksIsFree) {
  ContextProblem problem = ThreeItems();
  problem.synchronization = Synchronization::kAccumulated;
  const ContextSlots large_last = {{{.size = 0, .items = {0}}, {.size = 0, .items = {}}},
                                   {{.size = 1, .items = {1, 2}}}};
  EXPECT_EQ(ContextTime(problem, large_last), 7u + 9u);
  const ContextSlots crossed = {{{.size = 0, .items = {0, 1}}, {.size = 0, .items = {}}},
                                {{.size = 0, .items = {}}, {.size = 0, .items = {2}}}};
  EXPECT_EQ(ContextTime(problem, crossed), 13u + 1u);
}

TEST(ContextTimeTest, TheBoundGivesEachItemTheSizeThatTakesLeastOfThoseThatAreFastEnough) {
  // 18 on two ranks is 9 each, and the fixed cost of one slot.
  EXPECT_EQ(ContextBound(ThreeItems()), 10u);
  // Alone, an item takes both ranks for 4, or one of them for 6.
  ContextProblem one = ThreeItems();
  for (ContextSize& size : one.sizes) {
    size.tokens.resize(1);
    size.costs.resize(1);
  }
  EXPECT_EQ(ContextBound(one), 5u);
}

TEST(ContextTimeTest, TheBoundIsNeverAboveTheBestSlots) {
  for (const uint64_t seed : testing::Seeds(3000)) {
    RandomStream random(seed);
    ContextProblem problem = testing::RandomContext(random, 6, 6);
    problem.synchronization = Synchronization::kLockstep;
    const std::optional<Cost> best = testing::BestLockstep(problem).Time();
    if (best) {
      ASSERT_LE(ContextBound(problem), *best) << "seed " << seed << ": " << Describe(problem);
    }
  }
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    ContextProblem problem = testing::RandomContext(random, 4, 4);
    problem.synchronization = Synchronization::kAccumulated;
    problem.allow_empty = false;
    const std::optional<Cost> best = testing::BestAccumulated(problem).Time();
    if (best) {
      ASSERT_LE(ContextBound(problem), *best) << "seed " << seed << ": " << Describe(problem);
    }
  }
}

TEST(ContextTimeTest, TheBoundFallsWithRoomAndWithItemsThatAreLeftOut) {
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    ContextProblem problem = testing::RandomContext(random, 20, 16);
    problem.pipeline = nullptr;
    const Cost bound = ContextBound(problem);
    ContextProblem roomier = problem;
    for (ContextSize& size : roomier.sizes) size.capacity *= 2;
    // An item that fits nowhere is not in the bound until there is room.
    bool all_fit = true;
    for (uint32_t item = 0; item < problem.items(); ++item) {
      bool fits = false;
      for (const ContextSize& size : problem.sizes) fits |= size.tokens[item] <= size.capacity;
      all_fit &= fits;
    }
    if (all_fit) {
      EXPECT_LE(ContextBound(roomier), bound) << "seed " << seed;
    }
    if (problem.items() < 2) continue;
    problem.counts.pop_back();
    for (ContextSize& size : problem.sizes) {
      size.tokens.pop_back();
      size.costs.pop_back();
      if (!size.own_tokens.empty()) size.own_tokens.pop_back();
    }
    // Of whole rows a unit a sequence is taken off for rounding, of fewer sequences less.
    const Cost rounding = problem.full_rows ? 3 : 0;
    EXPECT_LE(ContextBound(problem), bound + rounding) << "seed " << seed;
  }
}

TEST(ContextTimeTest, TheFewestSlotsHoldTheTokensAndTheSequences) {
  ContextProblem problem =
      ContextOfLengths(std::vector<uint32_t>(9, 100), PoolOptions{.pool = 4, .budget = 100});
  EXPECT_EQ(FewestContextSlots(problem), 3u);
  problem.slots.multiple = 2;
  EXPECT_EQ(FewestContextSlots(problem), 4u);
  problem = ContextOfLengths(std::vector<uint32_t>(9, 1), PoolOptions{.pool = 4, .budget = 100});
  problem.max_sequences = 1;
  EXPECT_EQ(FewestContextSlots(problem), 3u);
}

}  // namespace
}  // namespace batchplan
