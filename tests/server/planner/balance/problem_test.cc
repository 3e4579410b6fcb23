#include "server/planner/balance/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tests/server/planner/balance/instances.h"

namespace batchplan {
namespace {

using testing::BalanceInstance;
using testing::RandomStream;

TEST(ProblemTest, ItemsStandByDescendingCostThenLengthThenNumber) {
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random);
    const Problem problem = instance.problem();
    ASSERT_EQ(problem.size(), instance.lengths.size());
    ASSERT_EQ(problem.bins(), instance.bins());
    uint64_t cost = 0;
    uint64_t length = 0;
    for (size_t i = 0; i < problem.size(); ++i) {
      const uint32_t item = problem.item[i];
      ASSERT_EQ(problem.length[i], instance.lengths[item]);
      ASSERT_EQ(problem.cost[i], instance.costs[item]);
      ASSERT_EQ(problem.count[i], instance.items().count(item));
      cost += problem.cost[i];
      length += problem.length[i];
      if (i == 0) continue;
      const uint32_t before = problem.item[i - 1];
      ASSERT_LT(std::tuple(instance.costs[item], instance.lengths[item], item),
                std::tuple(instance.costs[before], instance.lengths[before], before));
    }
    ASSERT_EQ(problem.total_cost, cost);
    ASSERT_EQ(problem.total_length, length);
    ASSERT_EQ(problem.lengths_descend,
              std::is_sorted(problem.length.rbegin(), problem.length.rend()));
  }
}

TEST(ProblemTest, FirstWithinIsTheFirstAfterWhichEveryItemIsWithin) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random, {.most_items = 20});
    const Problem problem = instance.problem();
    for (int i = 0; i < 10; ++i) {
      const uint64_t most_cost = random.OneOf(problem.cost) + random.Between(0, 2);
      const auto most_length =
          static_cast<uint32_t>(random.Between(0, instance.limits.capacity + 1));
      size_t first = problem.size();
      while (first > 0 && problem.cost[first - 1] <= most_cost &&
             (!problem.lengths_descend || problem.length[first - 1] <= most_length)) {
        --first;
      }
      ASSERT_EQ(problem.FirstWithin(most_cost, most_length), first) << instance.Describe();
    }
  }
}

}  // namespace
}  // namespace batchplan
