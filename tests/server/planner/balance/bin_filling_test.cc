#include "server/planner/balance/bin_filling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "server/planner/balance/longest_first.h"
#include "tests/server/planner/balance/instances.h"

namespace batchplan {
namespace {

using testing::BalanceInstance;
using testing::RandomStream;

TEST(ProblemTest, ItemsStandByDescendingCostThenLengthThenNumber) {
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random);
    const SortedTask task = instance.task();
    ASSERT_EQ(task.size(), instance.lengths.size());
    ASSERT_EQ(task.bins(), instance.bins());
    uint64_t cost = 0;
    uint64_t length = 0;
    for (size_t i = 0; i < task.size(); ++i) {
      const uint32_t item = task.item[i];
      ASSERT_EQ(task.length[i], instance.lengths[item]);
      ASSERT_EQ(task.cost[i], instance.costs[item]);
      ASSERT_EQ(task.count[i], instance.items().count(item));
      cost += task.cost[i];
      length += task.length[i];
      if (i == 0) continue;
      const uint32_t before = task.item[i - 1];
      ASSERT_LT(std::tuple(instance.costs[item], instance.lengths[item], item),
                std::tuple(instance.costs[before], instance.lengths[before], before));
    }
    ASSERT_EQ(task.total_cost, cost);
    ASSERT_EQ(task.total_length, length);
    ASSERT_EQ(task.lengths_descend, std::is_sorted(task.length.rbegin(), task.length.rend()));
  }
}

TEST(ProblemTest, FirstWithinIsTheFirstAfterWhichEveryItemIsWithin) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random, {.most_items = 20});
    const SortedTask task = instance.task();
    for (int i = 0; i < 10; ++i) {
      const uint64_t most_cost = random.OneOf(task.cost) + random.Between(0, 2);
      const auto most_length =
          static_cast<uint32_t>(random.Between(0, instance.limits.capacity + 1));
      size_t first = task.size();
      while (first > 0 && task.cost[first - 1] <= most_cost &&
             (!task.lengths_descend || task.length[first - 1] <= most_length)) {
        --first;
      }
      ASSERT_EQ(task.FirstWithin(most_cost, most_length), first) << instance.Describe();
    }
  }
}

TEST(FillingTest, LoadsAreThoseOfWhatBinsHold) {
  for (const uint64_t seed : testing::Seeds(300)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random, {.most_items = 30});
    const SortedTask task = instance.task();
    Filling filling(task);
    std::vector<std::set<uint32_t>> bins(task.bins());
    for (int step = 0; step < 100; ++step) {
      const auto position = static_cast<uint32_t>(random.Between(0, task.size() - 1));
      const auto bin = static_cast<uint32_t>(random.Between(0, task.bins() - 1));
      const uint32_t held_by = filling.BinOf(position);
      if (held_by == Filling::kUnplaced) {
        filling.Place(position, bin);
        bins[bin].insert(position);
      } else if (random.Chance(50)) {
        filling.Remove(position);
        bins[held_by].erase(position);
      } else {
        filling.Move(position, bin);
        bins[held_by].erase(position);
        bins[bin].insert(position);
      }
    }
    for (uint32_t bin = 0; bin < task.bins(); ++bin) {
      uint64_t cost = 0;
      int64_t room = task.limits.capacity;
      int64_t sequences = task.limits.max_sequences;
      for (uint32_t position : bins[bin]) {
        ASSERT_EQ(filling.BinOf(position), bin);
        cost += task.cost[position];
        room -= task.length[position];
        sequences -= task.count[position];
      }
      ASSERT_TRUE(std::ranges::equal(filling.Members(bin), bins[bin])) << "seed " << seed;
      ASSERT_EQ(filling[bin].cost, cost);
      ASSERT_EQ(filling[bin].room, room);
      ASSERT_EQ(filling[bin].sequences, sequences);
      ASSERT_EQ(filling[bin].IsOverfull(), room < 0 || sequences < 0);
      for (uint32_t position = 0; position < task.size(); ++position) {
        ASSERT_EQ(filling.Holds(bin, position),
                  task.length[position] <= room && task.count[position] <= sequences);
      }
    }
  }
}

TEST(LegalizeTest, SuccessMeansThatAllBinsKeepTheirLimitsAndHoldEverything) {
  uint64_t needed = 0;
  uint64_t mended = 0;
  for (const uint64_t seed : testing::Seeds(6000)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random);
    const SortedTask task = instance.task();
    Filling filling(task);
    std::vector<uint32_t> positions(task.size());
    std::iota(positions.begin(), positions.end(), 0u);
    const std::vector<uint32_t> left_over = FillLongestFirst(positions, 0, task.bins(), 0, filling);
    const bool legal = PlaceLeftOver(left_over, 0, task.bins(), 10000, filling);
    const std::string fault = testing::Fault(instance, testing::BinsOf(filling));
    if (legal) {
      ASSERT_EQ(fault, "") << instance.Describe();
    } else {
      ASSERT_NE(fault, "") << instance.Describe();
    }
    ASSERT_EQ(std::ranges::count(filling.bin_of(), Filling::kUnplaced), 0);
    needed += !left_over.empty();
    mended += legal && !left_over.empty();
  }
  RecordProperty("mended_percent", std::to_string(100 * mended / needed));
  EXPECT_GT(needed, testing::Cases(6000) / 20);
  EXPECT_GT(mended, needed / 4);
}

TEST(LegalizeTest, BinsBeyondTheRangeStayAsTheyAre) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random);
    if (instance.bins() < 2) continue;
    const SortedTask task = instance.task();
    Filling filling = testing::FillingOf(task, instance.solution);
    const auto begin = static_cast<uint32_t>(random.Between(0, instance.bins() - 2));
    const auto end = static_cast<uint32_t>(random.Between(begin + 1, instance.bins() - 1));
    std::vector<uint32_t> left_over;
    for (uint32_t position = 0; position < task.size(); ++position) {
      const uint32_t bin = filling.BinOf(position);
      const bool within = bin >= begin && bin < end;
      if (within && filling.Members(bin).size() > 1 && random.Chance(50)) {
        filling.Remove(position);
        left_over.push_back(position);
      }
    }
    const Bins before = testing::BinsOf(filling);
    PlaceLeftOver(left_over, begin, end, 1000, filling);
    const Bins after = testing::BinsOf(filling);
    for (uint32_t bin = 0; bin < instance.bins(); ++bin) {
      if (bin >= begin && bin < end) continue;
      ASSERT_TRUE(std::ranges::equal(before[bin], after[bin])) << instance.Describe();
    }
  }
}

TEST(LegalizeTest, AnExchangeMakesRoom) {
  // Tens hold 6 + 3 and 5 + 4 with 2 to come: the 4 for the 3.
  const std::vector<uint32_t> lengths = {6, 5, 4, 3, 2};
  const std::vector<uint64_t> costs = {6, 5, 4, 3, 2};
  const SortedTask task({.lengths = lengths, .loads = costs}, {.capacity = 10}, 2, 1);
  Filling filling(task);
  filling.Place(0, 0);
  filling.Place(3, 0);
  filling.Place(1, 1);
  filling.Place(2, 1);
  const std::vector<uint32_t> left_over = {4};
  ASSERT_TRUE(PlaceLeftOver(left_over, 0, 2, 1000, filling));
  EXPECT_EQ(filling[0].room, 0);
  EXPECT_EQ(filling[1].room, 0);
}

TEST(LegalizeTest, WithoutStepsItGivesUp) {
  const std::vector<uint32_t> lengths = {6, 5, 4, 3, 2};
  const std::vector<uint64_t> costs = {6, 5, 4, 3, 2};
  const SortedTask task({.lengths = lengths, .loads = costs}, {.capacity = 10}, 2, 1);
  Filling filling(task);
  filling.Place(0, 0);
  filling.Place(3, 0);
  filling.Place(1, 1);
  filling.Place(2, 1);
  const std::vector<uint32_t> left_over = {4};
  EXPECT_FALSE(PlaceLeftOver(left_over, 0, 2, 0, filling));
}

TEST(LegalizeTest, WhatFitsNowhereGoesWhereASequenceMayCome) {
  // The roomiest bin has its two sequences already: the 4 joins the 7, then changes for a 1.
  const std::vector<uint32_t> lengths = {7, 4, 1, 1};
  const std::vector<uint64_t> costs = {7, 4, 1, 1};
  const SortedTask task({.lengths = lengths, .loads = costs}, {.capacity = 10, .max_sequences = 2},
                        2, 1);
  Filling filling(task);
  filling.Place(0, 0);
  filling.Place(2, 1);
  filling.Place(3, 1);
  const std::vector<uint32_t> left_over = {1};
  ASSERT_TRUE(PlaceLeftOver(left_over, 0, 2, 1000, filling));
  EXPECT_EQ(filling[0].cost, 8);
  EXPECT_EQ(filling[1].cost, 5);
}

}  // namespace
}  // namespace batchplan
