#include "server/planner/balance/alike_bins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "server/planner/packing/packer.h"
#include "tests/server/planner/balance/instances.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::BalanceInstance;

constexpr uint32_t kBudget = 16384;

// Single sequences with attention, in so few slots that a mean bin has little more than `room`
// tokens to spare.
BalanceInstance Many(size_t count, uint64_t seed, uint32_t ranks, uint64_t room) {
  BalanceInstance instance;
  instance.lengths = testing::MathsLengths(count, seed);
  for (const uint64_t length : instance.lengths) {
    instance.costs.push_back(24576 * length + length * length);
  }
  instance.limits.capacity = kBudget;
  instance.ranks = ranks;
  const uint64_t tokens =
      std::accumulate(instance.lengths.begin(), instance.lengths.end(), uint64_t{0});
  instance.slots = static_cast<uint32_t>(tokens / (ranks * (kBudget - room)) + 1);
  return instance;
}

Bins ItemsOf(const SortedTask& task, const Bins& positions) {
  return testing::BinsOf(Filling::OfPositions(task, positions));
}

TEST(AlikeBinsTest, EveryItemIsInABinWithinTheLimits) {
  for (const uint64_t seed : {1, 2, 3}) {
    for (const uint32_t ranks : {8, 12, 64}) {
      const BalanceInstance instance = Many(100'000, seed, ranks, 24);
      const SortedTask task = instance.task();
      const std::optional<Bins> bins = FillAlike(task, {});
      ASSERT_TRUE(bins) << seed << " " << ranks;
      EXPECT_EQ(testing::Fault(instance, ItemsOf(task, *bins)), "") << seed << " " << ranks;
    }
  }
}

TEST(AlikeBinsTest, BinsOfASlotDifferByLessThanThoseOfAPacker) {
  const BalanceInstance instance = Many(131'072, 1, 16, 16);
  const SortedTask task = instance.task();
  const std::optional<Bins> alike = FillAlike(task, {});
  ASSERT_TRUE(alike);
  const Bins packed = PackFirstFitDecreasing({.lengths = instance.lengths, .loads = instance.costs},
                                             instance.limits);
  ASSERT_LE(packed.size(), task.bins());
  const auto waste = [&](const Bins& bins) {
    std::vector<uint64_t> costs = testing::BinCosts(instance, bins);
    costs.resize(task.bins());
    std::sort(costs.rbegin(), costs.rend());
    uint64_t time = 0;
    for (size_t bin = 0; bin < costs.size(); bin += task.ranks) time += costs[bin];
    return time - task.total_cost / task.ranks;
  };
  EXPECT_LT(waste(ItemsOf(task, *alike)), waste(packed) / 2);
}

TEST(AlikeBinsTest, SequencesAreLimitedToo) {
  BalanceInstance instance = Many(100'000, 1, 16, 24);
  const SortedTask free = instance.task();
  const std::optional<Bins> unlimited = FillAlike(free, {});
  ASSERT_TRUE(unlimited);
  uint32_t most = 0;
  for (size_t bin = 0; bin < unlimited->size(); ++bin) {
    most = std::max(most, static_cast<uint32_t>((*unlimited)[bin].size()));
  }
  instance.limits.max_sequences = most - 1;
  const SortedTask task = instance.task();
  const std::optional<Bins> bins = FillAlike(task, {});
  ASSERT_TRUE(bins);
  EXPECT_EQ(testing::Fault(instance, ItemsOf(task, *bins)), "");
}

TEST(AlikeBinsTest, TooFewBinsAreNotFilled) {
  BalanceInstance instance = Many(100'000, 1, 16, 24);
  instance.slots -= instance.slots / 100;
  EXPECT_FALSE(FillAlike(instance.task(), {}));
}

TEST(AlikeBinsTest, AStopEndsIt) {
  const BalanceInstance instance = Many(100'000, 1, 16, 24);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(FillAlike(instance.task(), Allowance(stop.get_token())));
}

TEST(AlikeBinsTest, OnlyManyItemsInBinsWithLittleRoomAreWorthIt) {
  const BinLimits limits = {.capacity = 1000};
  const auto worth = [&](size_t items, uint64_t room, uint64_t slots) {
    return WorthFillingAlike(items, slots * 16 * 1000 - room, limits, 16, slots);
  };
  EXPECT_TRUE(worth(100'000, 1'800, 160));
  EXPECT_FALSE(worth(50'000, 1'800, 160));
  EXPECT_FALSE(worth(100'000, 1'500, 140));
  EXPECT_FALSE(worth(100'000, 3'000, 160));
  EXPECT_FALSE(worth(100'000, 500, 160));
}

}  // namespace
}  // namespace batchplan
