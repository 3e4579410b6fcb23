#include "server/planner/balance/legalize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "server/planner/balance/spread.h"
#include "tests/server/planner/balance/instances.h"

namespace batchplan {
namespace {

using testing::BalanceInstance;
using testing::RandomStream;

TEST(LegalizeTest, SuccessMeansThatAllBinsKeepTheirLimitsAndHoldEverything) {
  uint64_t needed = 0;
  uint64_t mended = 0;
  for (const uint64_t seed : testing::Seeds(6000)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random);
    const Problem problem = instance.problem();
    Filling filling(problem);
    std::vector<uint32_t> positions(problem.size());
    std::iota(positions.begin(), positions.end(), 0u);
    const std::vector<uint32_t> left_over = Spread(positions, 0, problem.bins(), 0, filling);
    const bool legal = PlaceLeftOver(left_over, 0, problem.bins(), 10000, filling);
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
    const Problem problem = instance.problem();
    Filling filling = testing::FillingOf(problem, instance.solution);
    const auto begin = static_cast<uint32_t>(random.Between(0, instance.bins() - 2));
    const auto end = static_cast<uint32_t>(random.Between(begin + 1, instance.bins() - 1));
    std::vector<uint32_t> left_over;
    for (uint32_t position = 0; position < problem.size(); ++position) {
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
  const Problem problem({.lengths = lengths, .loads = costs}, {.capacity = 10}, 2, 1);
  Filling filling(problem);
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
  const Problem problem({.lengths = lengths, .loads = costs}, {.capacity = 10}, 2, 1);
  Filling filling(problem);
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
  const Problem problem({.lengths = lengths, .loads = costs}, {.capacity = 10, .max_sequences = 2},
                        2, 1);
  Filling filling(problem);
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
