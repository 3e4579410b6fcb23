#include "server/planner/time/step_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "server/planner/time/pipeline_time.h"
#include "server/planner/time/simulator.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

constexpr Synchronization kBoth[] = {Synchronization::kLockstep, Synchronization::kAccumulated};

// Slots of groups: ranks and cost of each.
TimedSlots SlotsOf(const std::vector<std::vector<std::pair<uint32_t, Cost>>>& slots) {
  TimedSlots timed;
  for (const auto& slot : slots) {
    for (const auto& [ranks, cost] : slot) timed.Add(ranks, cost);
    timed.Close();
  }
  return timed;
}

Pipeline TwoStages() {
  return PipelineOf({.pipeline_parallel = 2}, PipelineOptions(), /*forward_only=*/false);
}

TEST(StepClockTest, NoSlotsTakeNoTime) {
  const Pipeline pipeline = TwoStages();
  for (const Synchronization synchronization : kBoth) {
    EXPECT_EQ(StepClock(synchronization, nullptr).Of(TimedSlots()).time, 0u);
    EXPECT_EQ(StepClock(synchronization, &pipeline).Of(TimedSlots()).time, 0u);
  }
}

TEST(StepClockTest, InLockstepEverySlotTakesWhatItsCostliestMicrobatchDoes) {
  const StepClock clock(Synchronization::kLockstep, nullptr);
  EXPECT_EQ(clock.Of(SlotsOf({{{2, 7}, {1, 3}, {1, 0}}, {{4, 5}}})).time, 7u + 5u);
}

TEST(StepClockTest, AccumulatedAMicrobatchBeginsWhenTheLastOfItsRanksIsFree) {
  const StepClock clock(Synchronization::kAccumulated, nullptr);
  EXPECT_EQ(clock.Of(SlotsOf({{{1, 7}, {1, 1}}, {{1, 2}, {1, 8}}})).time, 9u);
  EXPECT_EQ(clock.Of(SlotsOf({{{1, 7}, {1, 1}}, {{2, 4}}, {{1, 1}, {1, 8}}})).time, 7u + 4u + 8u);
}

TEST(StepClockTest, GroupsOfOneSizeTakeWhatRanksDo) {
  const Pipeline pipeline = TwoStages();
  for (const uint64_t seed : testing::Seeds(200)) {
    testing::RandomStream random(seed);
    const size_t ranks = random.Between(1, 5);
    const size_t slots = random.Between(1, 6);
    std::vector<Cost> costs(ranks * slots);
    for (Cost& cost : costs) cost = random.Between(0, 1000);
    TimedSlots pairs;  // each rank twice
    for (size_t slot = 0; slot < slots; ++slot) {
      for (size_t rank = 0; rank < ranks; ++rank) pairs.Add(2, costs[rank * slots + slot]);
      pairs.Close();
    }
    const TimedSlots alone = TimedRanks(costs, ranks);
    ASSERT_EQ(alone.pool(), ranks);
    ASSERT_EQ(pairs.pool(), 2 * ranks);
    Cost costliest = 0;
    for (size_t slot = 0; slot < slots; ++slot) costliest += alone.Costliest(slot);
    Cost busiest = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const auto own = costs.begin() + static_cast<ptrdiff_t>(rank * slots);
      busiest =
          std::max(busiest, std::accumulate(own, own + static_cast<ptrdiff_t>(slots), Cost{0}));
    }
    const std::vector<double> on_pipelines(costs.begin(), costs.end());
    for (const Synchronization synchronization : kBoth) {
      const StepClock clock(synchronization, nullptr);
      const bool lockstep = synchronization == Synchronization::kLockstep;
      EXPECT_EQ(clock.Of(alone).time, lockstep ? costliest : busiest);
      EXPECT_EQ(clock.Of(pairs).time, clock.Of(alone).time);
      const StepClock of_pipelines(synchronization, &pipeline);
      const PipelineTime expected = PipelineTimeOf(pipeline, synchronization, on_pipelines, ranks);
      for (const TimedSlots& timed : {alone, pairs}) {
        EXPECT_EQ(of_pipelines.Of(timed).makespan, expected.makespan) << "seed " << seed;
        EXPECT_EQ(of_pipelines.Of(timed).work, expected.work) << "seed " << seed;
      }
    }
  }
}

TEST(StepClockTest, PartsOfAPoolOnPipelinesWaitForThemselvesAlone) {
  const Pipeline pipeline = TwoStages();
  const StepClock clock(Synchronization::kAccumulated, &pipeline);
  // No group reaches from the first two ranks to the others.
  const double parts = clock.Of(SlotsOf({{{2, 8}, {2, 2}}, {{1, 2}, {1, 1}, {2, 8}}})).makespan;
  const double first = clock.Of(SlotsOf({{{2, 8}}, {{1, 2}, {1, 1}}})).makespan;
  const double last = clock.Of(SlotsOf({{{2, 2}}, {{2, 8}}})).makespan;
  EXPECT_EQ(parts, std::max(first, last));
  // One that does makes all wait for the slots' costliest.
  EXPECT_EQ(clock.Of(SlotsOf({{{4, 8}}, {{1, 2}, {1, 1}, {2, 8}}})).makespan,
            clock.Of(SlotsOf({{{4, 8}}, {{4, 8}}})).makespan);
}

TEST(StepClockTest, NothingIsBelowTheBound) {
  const Pipeline pipeline = TwoStages();
  for (const uint64_t seed : testing::Seeds(200)) {
    testing::RandomStream random(seed);
    std::vector<Cost> costs(random.Between(1, 8));
    for (Cost& cost : costs) cost = random.Between(1, 1'000'000);
    const Cost work = std::accumulate(costs.begin(), costs.end(), Cost{0});
    const auto [least, most] = std::ranges::minmax(costs);
    for (const Pipeline* const on : {static_cast<const Pipeline*>(nullptr), &pipeline}) {
      const StepClock clock(Synchronization::kLockstep, on);
      EXPECT_LE(clock.Bound(work, least, most), clock.Of(TimedRanks(costs, 1)).time + 1)
          << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace batchplan
