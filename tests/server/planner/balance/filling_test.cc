#include "server/planner/balance/filling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/server/planner/balance/instances.h"

namespace batchplan {
namespace {

using testing::BalanceInstance;
using testing::RandomStream;

TEST(FillingTest, LoadsAreThoseOfWhatBinsHold) {
  for (const uint64_t seed : testing::Seeds(300)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random, {.most_items = 30});
    const Problem problem = instance.problem();
    Filling filling(problem);
    std::vector<std::set<uint32_t>> bins(problem.bins());
    for (int step = 0; step < 100; ++step) {
      const auto position = static_cast<uint32_t>(random.Between(0, problem.size() - 1));
      const auto bin = static_cast<uint32_t>(random.Between(0, problem.bins() - 1));
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
    for (uint32_t bin = 0; bin < problem.bins(); ++bin) {
      uint64_t cost = 0;
      int64_t room = problem.limits.capacity;
      int64_t sequences = problem.limits.max_sequences;
      for (uint32_t position : bins[bin]) {
        ASSERT_EQ(filling.BinOf(position), bin);
        cost += problem.cost[position];
        room -= problem.length[position];
        sequences -= problem.count[position];
      }
      ASSERT_TRUE(std::ranges::equal(filling.Members(bin), bins[bin])) << "seed " << seed;
      ASSERT_EQ(filling[bin].cost, cost);
      ASSERT_EQ(filling[bin].room, room);
      ASSERT_EQ(filling[bin].sequences, sequences);
      ASSERT_EQ(filling.IsOverfull(bin), room < 0 || sequences < 0);
      for (uint32_t position = 0; position < problem.size(); ++position) {
        ASSERT_EQ(filling.Holds(bin, position),
                  problem.length[position] <= room && problem.count[position] <= sequences);
      }
    }
  }
}

}  // namespace
}  // namespace batchplan
