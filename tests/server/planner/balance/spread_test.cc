#include "server/planner/balance/spread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "tests/server/planner/balance/instances.h"

namespace batchplan {
namespace {

using testing::BalanceInstance;
using testing::RandomStream;

std::vector<uint32_t> AllPositions(const Problem& problem) {
  std::vector<uint32_t> positions(problem.size());
  std::iota(positions.begin(), positions.end(), 0u);
  return positions;
}

TEST(SpreadTest, EachSequenceGoesToTheLeastLoadedBinThatHoldsIt) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random, {.counts = false});
    const Problem problem = instance.problem();
    const auto begin = static_cast<uint32_t>(random.Between(0, problem.bins() - 1));
    const auto end = static_cast<uint32_t>(random.Between(begin + 1, problem.bins()));
    const auto per_token = random.OneOf<uint64_t>({0, 1, 1000});
    Filling filling(problem);
    const std::vector<uint32_t> left_over =
        Spread(AllPositions(problem), begin, end, per_token, filling);

    Filling plain(problem);
    std::vector<uint32_t> unplaced;
    for (uint32_t position = 0; position < problem.size(); ++position) {
      const auto load = [&](uint32_t bin) {
        const uint64_t tokens = problem.limits.capacity - static_cast<uint64_t>(plain[bin].room);
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
    const Problem problem = instance.problem();
    Filling filling(problem);
    const std::vector<uint32_t> left_over =
        Spread(AllPositions(problem), 0, problem.bins(), random.Between(0, 5), filling);
    size_t placed = 0;
    for (uint32_t bin = 0; bin < problem.bins(); ++bin) {
      ASSERT_FALSE(filling.IsOverfull(bin)) << instance.Describe();
      ASSERT_FALSE(filling.Members(bin).empty()) << instance.Describe();
      placed += filling.Members(bin).size();
    }
    ASSERT_EQ(placed + left_over.size(), problem.size());
    for (uint32_t position : left_over) ASSERT_EQ(filling.BinOf(position), Filling::kUnplaced);
  }
}

}  // namespace
}  // namespace batchplan
