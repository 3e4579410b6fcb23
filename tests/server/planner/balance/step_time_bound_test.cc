#include "server/planner/balance/step_time_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/best_step_time.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::Cases;
using testing::RandomStream;

struct BoundInstance {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> counts;
  std::vector<uint64_t> costs;
  BinLimits limits;
  uint32_t ranks = 1;

  PackItems items() const { return {.lengths = lengths, .counts = counts, .loads = costs}; }
  std::string Describe() const {
    return absl::StrCat("lengths ", absl::StrJoin(lengths, ","), " counts ",
                        absl::StrJoin(counts, ","), " costs ", absl::StrJoin(costs, ","),
                        " capacity ", limits.capacity, " max_sequences ", limits.max_sequences,
                        " ranks ", ranks);
  }
};

enum class Shape { kUniform, kEqual, kOneGiant, kHalves, kLongTail, kTiny };
constexpr Shape kShapes[] = {Shape::kUniform, Shape::kEqual,    Shape::kOneGiant,
                             Shape::kHalves,  Shape::kLongTail, Shape::kTiny};

uint32_t Length(Shape shape, size_t item, uint32_t capacity, RandomStream& random) {
  const auto between = [&](uint32_t low, uint32_t high) {
    low = std::clamp(low, 1u, capacity);
    return static_cast<uint32_t>(random.Between(low, std::clamp(high, low, capacity)));
  };
  switch (shape) {
    case Shape::kUniform:
      return between(1, capacity);
    case Shape::kEqual:
      return std::max(1u, capacity * 2 / 5);
    case Shape::kOneGiant:
      return item == 0 ? capacity : between(1, capacity / 4);
    case Shape::kHalves:
      return between(capacity / 3, capacity * 2 / 3);
    case Shape::kLongTail:
      return between(1, between(1, between(1, capacity)));
    case Shape::kTiny:
      return between(1, 3);
  }
  return 1;
}

// Cost models of every kind: linear, quadratic, both, and some that sequences do not explain.
enum class Costs { kTokens, kSquares, kBoth, kAny, kSome };
constexpr Costs kCosts[] = {Costs::kTokens, Costs::kSquares, Costs::kBoth, Costs::kAny,
                            Costs::kSome};

uint64_t CostOf(Costs costs, uint64_t length, uint32_t capacity, RandomStream& random) {
  switch (costs) {
    case Costs::kTokens:
      return length;
    case Costs::kSquares:
      return length * length;
    case Costs::kBoth:
      return capacity * length + length * length;
    case Costs::kAny:
      return random.Between(0, 100);
    case Costs::kSome:
      return random.Chance(50) ? 0 : length;
  }
  return 0;
}

BoundInstance RandomInstance(Shape shape, Costs costs, size_t size, uint32_t capacity,
                             RandomStream& random) {
  BoundInstance instance;
  instance.limits.capacity = capacity;
  instance.ranks = static_cast<uint32_t>(random.Between(1, 3));
  if (random.Chance(25)) {
    instance.limits.max_sequences = static_cast<uint32_t>(random.Between(1, 6));
  }
  const bool groups = random.Chance(20);
  for (size_t i = 0; i < size; ++i) {
    const uint32_t length = Length(shape, i, capacity, random);
    instance.lengths.push_back(length);
    uint64_t cost = CostOf(costs, length, capacity, random);
    if (groups) {
      const auto most = std::min({length, 3u, instance.limits.max_sequences});
      const auto count = static_cast<uint32_t>(random.Between(1, most));
      instance.counts.push_back(count);
      if (costs == Costs::kSquares) cost /= count;
    }
    instance.costs.push_back(cost);
  }
  return instance;
}

TEST(StepTimeBoundTest, NothingCostsNothing) {
  EXPECT_EQ(LockstepBound({}, {.capacity = 10}, 2), 0);
  EXPECT_EQ(AccumulatedBound({}, 2), 0);
  const std::vector<uint32_t> lengths = {3, 4};
  const std::vector<uint64_t> costs = {0, 0};
  EXPECT_EQ(LockstepBound({.lengths = lengths, .loads = costs}, {.capacity = 10}, 2), 0);
  EXPECT_EQ(AccumulatedBound({.lengths = lengths, .loads = costs}, 2), 0);
}

TEST(StepTimeBoundTest, LongItemsThatCannotShareFillSlotsOfTheirOwn) {
  // Five sixes of ten in slots of two: 6, 6 and 6.
  const std::vector<uint32_t> lengths = {6, 6, 6, 6, 6};
  const std::vector<uint64_t> costs = {6, 6, 6, 6, 6};
  EXPECT_EQ(LockstepBound({.lengths = lengths, .loads = costs}, {.capacity = 10}, 2), 18);
}

TEST(StepTimeBoundTest, WhatFitsBesideALongItemIsCheap) {
  // A hundred squares to ten thousand; no other micro-batch of its slot gets beyond ten tens.
  std::vector<uint32_t> lengths(1, 100);
  std::vector<uint64_t> costs(1, 10000);
  for (int i = 0; i < 40; ++i) {
    lengths.push_back(10);
    costs.push_back(100);
  }
  // The slot of the long one holds ten more, the other thirty fill two micro-batches of 1500.
  const PackItems items = {.lengths = lengths, .loads = costs};
  EXPECT_EQ(LockstepBound(items, {.capacity = 100}, 2), 10000 + 1500);
  EXPECT_EQ(AccumulatedBound(items, 2), 10000);
}

TEST(StepTimeBoundTest, SomeRankHasTwoOfTheCostliest) {
  const std::vector<uint32_t> lengths = {9, 8, 7};
  const std::vector<uint64_t> costs = {9, 8, 7};
  EXPECT_EQ(AccumulatedBound({.lengths = lengths, .loads = costs}, 2), 15);
  EXPECT_EQ(LockstepBound({.lengths = lengths, .loads = costs}, {.capacity = 10}, 2), 16);
}

TEST(StepTimeBoundTest, ASequenceLimitCountsToo) {
  const std::vector<uint32_t> lengths = {4, 3, 2, 1};
  const std::vector<uint64_t> costs = {4, 3, 2, 1};
  EXPECT_EQ(
      LockstepBound({.lengths = lengths, .loads = costs}, {.capacity = 100, .max_sequences = 1}, 2),
      4 + 2);
}

TEST(StepTimeBoundTest, CostsNearTheLimitDoNotOverflow) {
  const std::vector<uint32_t> lengths = {1000, 1000, 1000, 1};
  const std::vector<uint64_t> costs = {uint64_t{1} << 60, uint64_t{1} << 60, uint64_t{1} << 60, 7};
  const PackItems items = {.lengths = lengths, .loads = costs};
  EXPECT_EQ(LockstepBound(items, {.capacity = 1000}, 65536), uint64_t{1} << 60);
  EXPECT_EQ(LockstepBound(items, {.capacity = 1000}, 1), 3 * (uint64_t{1} << 60) + 7);
  EXPECT_EQ(AccumulatedBound(items, 2), uint64_t{1} << 61);
}

TEST(StepTimeBoundTest, TotalsBeyondThatOfCostsDoNotOverflow) {
  // Tokens are not scaled to stay below 2^62.
  constexpr uint64_t kUnit = uint64_t{1} << 59;
  const std::vector<uint32_t> lengths = {4, 3, 2, 1};
  const std::vector<uint64_t> tokens = {4 * kUnit, 3 * kUnit, 2 * kUnit, kUnit};
  const PackItems items = {.lengths = lengths, .loads = tokens};
  EXPECT_EQ(LockstepBound(items, {.capacity = 100, .max_sequences = 1}, 2), (4 + 2) * kUnit);
  EXPECT_EQ(AccumulatedBound(items, 2), 5 * kUnit);
}

TEST(StepTimeBoundTest, NeverExceedsTheOptimum) {
  RandomStream random(testing::Seed(1));
  std::map<std::pair<int, int>, std::pair<double, int>> tightness;
  for (uint64_t i = 0; i < Cases(12000); ++i) {
    const Shape shape = kShapes[i % std::size(kShapes)];
    const Costs costs = kCosts[i / 7 % std::size(kCosts)];
    const auto capacity =
        static_cast<uint32_t>(random.OneOf<uint64_t>({1, 2, 3, 5, 7, 12, 40, 1000, 16384}));
    const BoundInstance instance =
        RandomInstance(shape, costs, random.Between(1, 8), capacity, random);
    const PackItems items = instance.items();
    const uint64_t lockstep = LockstepBound(items, instance.limits, instance.ranks);
    const uint64_t best = testing::BestLockstep(items, instance.limits, instance.ranks);
    ASSERT_LE(lockstep, best) << instance.Describe();
    const uint64_t accumulated = AccumulatedBound(items, instance.ranks);
    ASSERT_LE(accumulated, testing::BestAccumulated(items, instance.ranks)) << instance.Describe();
    ASSERT_LE(accumulated, lockstep) << instance.Describe();
    if (best > 0) {
      auto& [sum, count] = tightness[{static_cast<int>(shape), static_cast<int>(costs)}];
      sum += static_cast<double>(lockstep) / static_cast<double>(best);
      ++count;
    }
  }
  double sum = 0;
  int count = 0;
  for (const auto& [kind, mean] : tightness) {
    EXPECT_GE(mean.first / mean.second, 0.95) << "shape " << kind.first << " costs " << kind.second;
    sum += mean.first;
    count += mean.second;
  }
  EXPECT_GE(sum / count, 0.99);
  RecordProperty("mean_tightness_percent", static_cast<int>(100 * sum / count));
}

std::vector<uint32_t> RandomRanks(const BoundInstance& instance, RandomStream& random) {
  std::vector<uint32_t> rank_of;
  for (size_t i = 0; i < instance.lengths.size(); ++i) {
    rank_of.push_back(static_cast<uint32_t>(random.Between(0, instance.ranks - 1)));
  }
  return rank_of;
}

TEST(StepTimeBoundTest, OfGivenRanksNeverExceedsTheOptimumOfThese) {
  RandomStream random(testing::Seed(4));
  double sum = 0;
  int count = 0;
  for (uint64_t i = 0; i < Cases(12000); ++i) {
    const Shape shape = kShapes[i % std::size(kShapes)];
    const Costs costs = kCosts[i / 7 % std::size(kCosts)];
    const auto capacity =
        static_cast<uint32_t>(random.OneOf<uint64_t>({1, 2, 3, 5, 7, 12, 40, 1000, 16384}));
    const BoundInstance instance =
        RandomInstance(shape, costs, random.Between(1, 9), capacity, random);
    const std::vector<uint32_t> rank_of = RandomRanks(instance, random);
    const uint64_t bound =
        LockstepBoundOfRanks(instance.items(), instance.limits, instance.ranks, rank_of);
    const uint64_t best =
        testing::BestLockstepOfRanks(instance.items(), instance.limits, instance.ranks, rank_of);
    ASSERT_LE(bound, best) << instance.Describe() << " on " << absl::StrJoin(rank_of, ",");
    std::vector<uint64_t> sums(instance.ranks, 0);
    for (size_t item = 0; item < rank_of.size(); ++item)
      sums[rank_of[item]] += instance.costs[item];
    ASSERT_GE(bound, *std::max_element(sums.begin(), sums.end())) << instance.Describe();
    if (best == 0) continue;
    sum += static_cast<double>(bound) / static_cast<double>(best);
    ++count;
  }
  EXPECT_GE(sum / count, 0.99);
  RecordProperty("mean_tightness_percent", static_cast<int>(100 * sum / count));
}

// The step time of items placed at random, or each in the least loaded micro-batch that holds it.
uint64_t HeuristicLockstep(const BoundInstance& instance, RandomStream& random) {
  const PackItems items = instance.items();
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  if (random.Chance(50)) {
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(instance.costs[b], a) < std::pair(instance.costs[a], b);
    });
  } else {
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random.Between(0, i - 1)]);
    }
  }
  const bool even = random.Chance(70);
  std::vector<BinRoom> rooms(random.Between(1, items.size()), BinRoom(instance.limits));
  std::vector<uint64_t> costs(rooms.size(), 0);
  for (const uint32_t item : order) {
    size_t chosen = rooms.size();
    for (size_t bin = 0; bin < rooms.size(); ++bin) {
      if (!rooms[bin].Holds(items, item)) continue;
      if (chosen == rooms.size() || (even && costs[bin] < costs[chosen])) chosen = bin;
    }
    if (chosen == rooms.size()) {
      rooms.emplace_back(instance.limits);
      costs.push_back(0);
    }
    rooms[chosen].Take(items, item);
    costs[chosen] += instance.costs[item];
  }
  std::sort(costs.begin(), costs.end(), std::greater<>());
  uint64_t sum = 0;
  for (size_t first = 0; first < costs.size(); first += instance.ranks) sum += costs[first];
  return sum;
}

TEST(StepTimeBoundTest, NeverExceedsAnyPackingOfLargerInstances) {
  RandomStream random(testing::Seed(2));
  for (uint64_t i = 0; i < Cases(600); ++i) {
    const Shape shape = kShapes[i % std::size(kShapes)];
    const Costs costs = kCosts[i / 7 % std::size(kCosts)];
    const auto capacity = static_cast<uint32_t>(random.OneOf<uint64_t>({5, 40, 1000, 65536}));
    BoundInstance instance =
        RandomInstance(shape, costs, random.Between(50, 500), capacity, random);
    instance.ranks = static_cast<uint32_t>(random.Between(1, 24));
    const uint64_t bound = LockstepBound(instance.items(), instance.limits, instance.ranks);
    for (int trial = 0; trial < 8; ++trial) {
      ASSERT_LE(bound, HeuristicLockstep(instance, random)) << instance.Describe();
    }
  }
}

// The bound does not depend on the order of items, and scales with their costs.
TEST(StepTimeBoundTest, OrderAndUnitMakeNoDifference) {
  RandomStream random(testing::Seed(3));
  for (uint64_t i = 0; i < Cases(200); ++i) {
    BoundInstance instance = RandomInstance(kShapes[i % std::size(kShapes)], Costs::kBoth,
                                            random.Between(1, 60), 1000, random);
    instance.counts.clear();
    const uint64_t bound = LockstepBound(instance.items(), instance.limits, instance.ranks);
    std::reverse(instance.lengths.begin(), instance.lengths.end());
    std::reverse(instance.costs.begin(), instance.costs.end());
    EXPECT_EQ(LockstepBound(instance.items(), instance.limits, instance.ranks), bound);
    for (uint64_t& cost : instance.costs) cost <<= 20;
    const uint64_t scaled = LockstepBound(instance.items(), instance.limits, instance.ranks);
    EXPECT_LE(scaled, bound << 20);
    EXPECT_GT(scaled, (bound - 1) << 20);
  }
}

}  // namespace
}  // namespace batchplan
