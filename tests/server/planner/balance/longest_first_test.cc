#include "server/planner/balance/longest_first.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/server/planner/balance/instances.h"
#include "tests/server/planner/balance/partitions.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::BalanceInstance;
using ::testing::ElementsAre;
using testing::RandomStream;

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// The rule by definition, without a heap.
std::vector<uint32_t> NaiveLongestFirst(const std::vector<uint64_t>& loads, uint32_t parts,
                                        uint64_t most_each) {
  std::vector<uint32_t> order(loads.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(loads[a], a) > std::pair(loads[b], b);
  });
  std::vector<std::tuple<uint64_t, uint64_t, uint32_t>> open;  // (sum, loads, number)
  for (uint32_t part = 0; part < parts; ++part) open.emplace_back(0, 0, part);
  std::vector<uint32_t> part_of(loads.size());
  for (uint32_t item : order) {
    const auto least = std::min_element(open.begin(), open.end());
    auto& [sum, count, number] = *least;
    part_of[item] = number;
    sum += loads[item];
    if (++count == most_each) open.erase(least);
  }
  return part_of;
}

TEST(LongestFirstTest, TheLongestGoToTheLeastLoaded) {
  const std::vector<uint64_t> loads = {2, 9, 4, 7, 3};
  // 9 | 7, then 4 to 7, 3 to 9, 2 to 11.
  EXPECT_THAT(LongestFirst(loads, 2), ElementsAre(1, 0, 1, 1, 0));
}

TEST(LongestFirstTest, AFullPartTakesNoMore) {
  const std::vector<uint64_t> loads = {90, 1, 2, 3};
  EXPECT_THAT(LongestFirst(loads, 2), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(LongestFirst(loads, 2, 2), ElementsAre(0, 0, 1, 1));
}

TEST(LongestFirstTest, EqualSumsPreferFewerLoadsAndLowerNumbers) {
  // Of equal loads, the last is placed first; loads of 0 go to the part with the fewest.
  const std::vector<uint64_t> loads = {0, 5, 0, 5};
  EXPECT_THAT(LongestFirst(loads, 2), ElementsAre(1, 1, 0, 0));
}

TEST(LongestFirstTest, FollowsTheRuleOnRandomLoads) {
  for (const uint64_t seed : testing::Seeds(3000)) {
    RandomStream random(seed);
    const auto parts = static_cast<uint32_t>(random.Between(1, 9));
    std::vector<uint64_t> loads(random.Between(0, 60));
    const uint64_t most = random.OneOf<uint64_t>({2, 50, 1000000});
    for (uint64_t& load : loads) load = random.Between(0, most);
    const uint64_t fair = (loads.size() + parts - 1) / parts;
    const uint64_t most_each = random.OneOf<uint64_t>({kNoLimit, fair, fair + 1});
    ASSERT_EQ(LongestFirst(loads, parts, most_each), NaiveLongestFirst(loads, parts, most_each))
        << "seed " << seed;
  }
}

TEST(LongestFirstTest, IsWithinGrahamsBoundOfTheBest) {
  for (const uint64_t seed : testing::Seeds(200)) {
    RandomStream random(seed);
    const auto parts = static_cast<uint32_t>(random.Between(2, 3));
    std::vector<uint64_t> loads(random.Between(1, 8));
    for (uint64_t& load : loads) load = random.Between(1, 30);
    // sum <= (4/3 - 1/(3 parts)) least
    ASSERT_LE(3 * parts * testing::LargestSum(loads, LongestFirst(loads, parts), parts),
              (4 * parts - 1) * testing::LeastLargestSum(loads, parts))
        << "seed " << seed;
  }
}

std::vector<uint32_t> AllPositions(const SortedTask& task) {
  std::vector<uint32_t> positions(task.size());
  std::iota(positions.begin(), positions.end(), 0u);
  return positions;
}

TEST(SpreadTest, EachSequenceGoesToTheLeastLoadedBinThatHoldsIt) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random, {.counts = false});
    const SortedTask task = instance.task();
    const auto begin = static_cast<uint32_t>(random.Between(0, task.bins() - 1));
    const auto end = static_cast<uint32_t>(random.Between(begin + 1, task.bins()));
    const auto per_token = random.OneOf<uint64_t>({0, 1, 1000});
    Filling filling(task);
    const std::vector<uint32_t> left_over =
        FillLongestFirst(AllPositions(task), begin, end, per_token, filling);

    Filling plain(task);
    std::vector<uint32_t> unplaced;
    for (uint32_t position = 0; position < task.size(); ++position) {
      const auto load = [&](uint32_t bin) {
        const uint64_t tokens = task.limits.capacity - static_cast<uint64_t>(plain[bin].room);
        return std::tuple(plain[bin].cost + per_token * tokens, plain.Members(bin).size(), bin);
      };
      uint32_t least = end;
      for (uint32_t bin = begin; bin < end; ++bin) {
        if (plain.Holds(bin, position) && (least == end || load(bin) < load(least))) least = bin;
      }
      if (least == end) {
        unplaced.push_back(position);
      } else {
        plain.Place(position, least);
      }
    }
    ASSERT_EQ(left_over, unplaced) << instance.Describe();
    ASSERT_TRUE(std::ranges::equal(filling.bin_of(), plain.bin_of())) << instance.Describe();
  }
}

TEST(SpreadTest, NoBinIsOverfullAndNoneStaysEmptyWhereThereAreAsManyItems) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random);
    const SortedTask task = instance.task();
    Filling filling(task);
    const std::vector<uint32_t> left_over =
        FillLongestFirst(AllPositions(task), 0, task.bins(), random.Between(0, 5), filling);
    size_t placed = 0;
    for (uint32_t bin = 0; bin < task.bins(); ++bin) {
      ASSERT_FALSE(filling[bin].IsOverfull()) << instance.Describe();
      ASSERT_FALSE(filling.Members(bin).empty()) << instance.Describe();
      placed += filling.Members(bin).size();
    }
    ASSERT_EQ(placed + left_over.size(), task.size());
    for (uint32_t position : left_over) ASSERT_EQ(filling.BinOf(position), Filling::kUnplaced);
  }
}

}  // namespace
}  // namespace batchplan
