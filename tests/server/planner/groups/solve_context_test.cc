#include "server/planner/groups/solve_context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "server/planner/pass/context_time.h"
#include "tests/server/planner/groups/best_slots.h"
#include "tests/server/planner/groups/problems.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::ContextOfLengths;
using testing::Describe;
using testing::FaultOf;
using testing::PoolOptions;
using testing::RandomStream;

std::optional<ContextSlots> Solve(const ContextProblem& problem) {
  std::optional<SolvedContext> solved =
      SolveContext(problem, {}, Allowance(AllowanceOf(problem.effort), {}));
  if (!solved) return std::nullopt;
  return std::move(solved->slots);
}

bool Equal(const ContextSlots& a, const ContextSlots& b) {
  return std::ranges::equal(a, b, [](const auto& slot, const auto& other) {
    return std::ranges::equal(slot, other, [](const ContextGroup& x, const ContextGroup& y) {
      return x.size == y.size && x.items == y.items;
    });
  });
}

TEST(SolveContextTest, FindsSlotsWhereverThereAreAnyAndNeverBetterOnesThanThereAre) {
  double above = 0;
  uint64_t solved = 0;
  for (const uint64_t seed : testing::Seeds(3000)) {
    RandomStream random(seed);
    const ContextProblem problem = testing::RandomContext(random, 7, 8);
    const std::optional<Cost> best = testing::BestLockstep(problem).Time();
    const std::optional<ContextSlots> slots = Solve(problem);
    ASSERT_EQ(slots.has_value(), best.has_value()) << "seed " << seed << ": " << Describe(problem);
    if (!slots) continue;
    ASSERT_EQ(FaultOf(problem, *slots), "") << "seed " << seed << ": " << Describe(problem);
    const Cost time = ContextTime(problem, *slots);
    ASSERT_GE(time, ContextBound(problem)) << "seed " << seed << ": " << Describe(problem);
    if (problem.synchronization == Synchronization::kAccumulated) continue;
    ASSERT_GE(time, *best) << "seed " << seed << ": " << Describe(problem);
    if (*best > 0) above += static_cast<double>(time) / static_cast<double>(*best) - 1;
    ++solved;
  }
  RecordProperty("mean_above_best",
                 std::to_string(above / static_cast<double>(std::max<uint64_t>(solved, 1))));
}

TEST(SolveContextTest, AnswersKeepTheRulesOnPoolsOfAnySize) {
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    const ContextProblem problem = testing::RandomContext(random, 200, 100);
    const std::optional<ContextSlots> slots = Solve(problem);
    if (!slots) continue;
    ASSERT_EQ(FaultOf(problem, *slots), "") << "seed " << seed << ": " << Describe(problem);
    ASSERT_GE(ContextTime(problem, *slots), ContextBound(problem)) << "seed " << seed;
    const std::optional<ContextSlots> again = Solve(problem);
    ASSERT_TRUE(again && Equal(*slots, *again)) << "seed " << seed;
  }
}

TEST(SolveContextTest, IsNoSlowerThanACandidate) {
  for (const uint64_t seed : testing::Seeds(60)) {
    RandomStream random(seed);
    ContextProblem problem = testing::RandomContext(random, 40, 16);
    problem.effort = Effort::kThorough;
    const std::optional<ContextSlots> candidate = Solve(problem);
    if (!candidate) continue;
    problem.effort = Effort::kFast;
    const std::optional<SolvedContext> solved =
        SolveContext(problem, {&*candidate, 1}, Allowance(AllowanceOf(Effort::kFast), {}));
    ASSERT_TRUE(solved) << "seed " << seed;
    ASSERT_EQ(FaultOf(problem, solved->slots), "") << "seed " << seed;
    EXPECT_LE(ContextTime(problem, solved->slots), ContextTime(problem, *candidate))
        << "seed " << seed;
  }
}

TEST(SolveContextTest, GroupsOfALongItemAreAsLargeAsItsTokensNeed) {
  // 300 tokens on ranks of 100 need four; the others are cheapest on one.
  ContextProblem problem = ContextOfLengths({300, 90, 90, 90, 90},
                                            PoolOptions{.pool = 8, .budget = 100, .exchange = 260});
  const std::optional<ContextSlots> slots = Solve(problem);
  ASSERT_TRUE(slots);
  ASSERT_EQ(slots->size(), 1u);
  ASSERT_EQ(slots->front().size(), 5u);
  EXPECT_EQ(problem.sizes[slots->front().front().size].ranks, 4u);
  EXPECT_EQ(slots->front().front().items, std::vector<uint32_t>{0});
}

TEST(SolveContextTest, NothingIsFoundWhereAnItemFitsNowhere) {
  EXPECT_FALSE(Solve(ContextOfLengths({801}, PoolOptions{.pool = 8, .budget = 100})));
}

TEST(SolveContextTest, OnPipelinesTheNumberOfSlotsIsOneThatTheScheduleTakes) {
  Pipeline pipeline = {.stages = 4,
                       .chunks = 2,
                       .interleaved = true,
                       .group_size = 4,
                       .shares = std::vector<double>(8, 0.125)};
  ContextProblem problem =
      ContextOfLengths(testing::MathsLengths(200, 1),
                       PoolOptions{.pool = 8, .budget = 8192, .exchange = 65, .per_microbatch = 1});
  problem.slots.multiple = 4;
  problem.pipeline = &pipeline;
  const std::optional<ContextSlots> slots = Solve(problem);
  ASSERT_TRUE(slots);
  EXPECT_EQ(FaultOf(problem, *slots), "");
  EXPECT_GE(ContextTime(problem, *slots), ContextBound(problem));
}

TEST(SolveContextTest, OnceAStopIsRequestedThereIsNoAnswer) {
  std::stop_source stop;
  stop.request_stop();
  const ContextProblem problem =
      ContextOfLengths(testing::MathsLengths(2000, 1), PoolOptions{.pool = 16, .budget = 16384});
  EXPECT_FALSE(SolveContext(problem, {}, Allowance(AllowanceOf(problem.effort), stop.get_token())));
}

TEST(SolveContextTest, ASpentAllowanceStillGivesAnAnswer) {
  const ContextProblem problem =
      ContextOfLengths(testing::MathsLengths(2000, 1), PoolOptions{.pool = 16, .budget = 16384});
  const std::optional<SolvedContext> solved = SolveContext(problem, {}, Allowance(0, {}));
  ASSERT_TRUE(solved);
  EXPECT_EQ(FaultOf(problem, solved->slots), "");
}

}  // namespace
}  // namespace batchplan
