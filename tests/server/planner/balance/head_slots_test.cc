#include <gtest/gtest.h>

#include <stop_token>
#include <vector>

#include "server/planner/balance/bin_filling.h"
#include "tests/server/planner/balance/instances.h"

namespace batchplan {
namespace {

using testing::BalanceInstance;
using testing::RandomStream;

IndexSet AllUnused(const SortedTask& task) {
  IndexSet unused(task.size());
  for (size_t i = 0; i < task.size(); ++i) unused.Insert(i);
  return unused;
}

TEST(HeadSlotsTest, SlotsAreFilledWithinTheLimitsAndTheRestIsUntouched) {
  uint64_t filled = 0;
  for (const uint64_t seed : testing::Seeds(4000)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random);
    const SortedTask task = instance.task();
    IndexSet unused = AllUnused(task);
    Filling filling(task);
    const uint32_t slots = FillHeadSlots(unused, filling);
    ASSERT_LT(slots, task.slots) << instance.Describe();
    filled += slots;
    for (uint32_t bin = 0; bin < task.bins(); ++bin) {
      ASSERT_EQ(filling.Members(bin).empty(), bin >= slots * task.ranks) << instance.Describe();
      ASSERT_FALSE(filling[bin].IsOverfull()) << instance.Describe();
    }
    size_t left = 0;
    uint64_t left_cost = 0;
    for (uint32_t position = 0; position < task.size(); ++position) {
      ASSERT_EQ(unused.Contains(position), filling.BinOf(position) == Filling::kUnplaced);
      if (!unused.Contains(position)) continue;
      ++left;
      left_cost += task.cost[position];
    }
    const uint64_t left_bins = task.bins() - slots * task.ranks;
    ASSERT_GE(left, left_bins) << instance.Describe();
    if (slots + 1 < task.slots) {
      ASSERT_LE(task.cost[unused.AtLeast(0)], left_cost / left_bins) << instance.Describe();
    }
  }
  EXPECT_GT(filled, testing::Cases(4000) / 4);
}

TEST(HeadSlotsTest, ALongItemGetsCompanyThatCostsAsMuch) {
  // A slot of 90 on both ranks, the second of many tens.
  std::vector<uint32_t> lengths = {90};
  lengths.resize(30, 10);
  const std::vector<uint64_t> costs(lengths.begin(), lengths.end());
  const SortedTask task({.lengths = lengths, .loads = costs}, {.capacity = 100}, 2, 4);
  IndexSet unused = AllUnused(task);
  Filling filling(task);
  ASSERT_GE(FillHeadSlots(unused, filling), 1);
  EXPECT_EQ(filling[0].cost, filling[1].cost);
}

TEST(HeadSlotsTest, ARequestToStopLeavesAllUnused) {
  std::vector<uint32_t> lengths = {90};
  lengths.resize(30, 10);
  const std::vector<uint64_t> costs(lengths.begin(), lengths.end());
  const SortedTask task({.lengths = lengths, .loads = costs}, {.capacity = 100}, 2, 4);
  IndexSet unused = AllUnused(task);
  Filling filling(task);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(FillHeadSlots(unused, filling, stop.get_token()), 0);
  EXPECT_TRUE(unused.Contains(0));
}

}  // namespace
}  // namespace batchplan
