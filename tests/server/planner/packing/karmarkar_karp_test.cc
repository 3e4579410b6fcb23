#include "server/planner/packing/karmarkar_karp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tests/support/generators.h"

namespace batchplan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::RandomStream;

std::vector<uint64_t> SumsOf(const std::vector<uint64_t>& loads,
                             const std::vector<uint32_t>& part_of, uint32_t parts) {
  EXPECT_EQ(part_of.size(), loads.size());
  std::vector<uint64_t> sums(parts, 0);
  for (size_t i = 0; i < loads.size(); ++i) sums.at(part_of[i]) += loads[i];
  return sums;
}

std::vector<size_t> CountsOf(const std::vector<uint32_t>& part_of, uint32_t parts) {
  std::vector<size_t> counts(parts, 0);
  for (uint32_t part : part_of) ++counts.at(part);
  return counts;
}

// The sums of a partial solution's parts, in descending order.
using State = std::vector<uint64_t>;

uint64_t SpreadOf(const State& state) { return state.front() - state.back(); }

// The rule by definition: the two states with the largest spread are merged, the largest part of
// one with the smallest of the other, until one state is left. None if two states are equally good,
// which leaves a choice to the rule. O(n^2 parts).
std::optional<State> MergeAll(std::vector<State> states) {
  while (states.size() > 1) {
    std::stable_sort(states.begin(), states.end(),
                     [](const State& a, const State& b) { return SpreadOf(a) > SpreadOf(b); });
    if (states.size() > 2 && SpreadOf(states[1]) == SpreadOf(states[2])) return std::nullopt;
    State merged = states[0];
    for (size_t i = 0; i < merged.size(); ++i) merged[i] += states[1][merged.size() - 1 - i];
    std::sort(merged.begin(), merged.end(), std::greater<>());
    states.erase(states.begin());
    states.front() = std::move(merged);
  }
  return states.front();
}

std::optional<State> NaiveSums(const std::vector<uint64_t>& loads, uint32_t parts) {
  std::vector<State> states;
  for (uint64_t load : loads) {
    State& state = states.emplace_back(parts, 0);
    state.front() = load;
  }
  return MergeAll(std::move(states));
}

std::optional<State> NaiveEqualSums(std::vector<uint64_t> loads, uint32_t parts) {
  std::sort(loads.begin(), loads.end());
  std::vector<State> states;
  for (size_t i = 0; i < loads.size(); i += parts) {
    State& state = states.emplace_back(loads.begin() + static_cast<ptrdiff_t>(i),
                                       loads.begin() + static_cast<ptrdiff_t>(i + parts));
    std::reverse(state.begin(), state.end());
  }
  return MergeAll(std::move(states));
}

std::vector<uint64_t> RandomLoads(RandomStream& random, size_t count) {
  // Narrow ranges make ties; zeros are loads too.
  const uint64_t most = random.OneOf<uint64_t>({3, 100, 1000000000});
  std::vector<uint64_t> loads(count);
  for (uint64_t& load : loads) load = random.Between(0, most);
  return loads;
}

TEST(KarmarkarKarpTest, DifferencingLeaves2OfTheClassicFive) {
  const std::vector<uint64_t> loads = {8, 7, 6, 5, 4};
  EXPECT_THAT(SumsOf(loads, KarmarkarKarp(loads, 2), 2), ElementsAre(16, 14));
}

TEST(KarmarkarKarpTest, ThreePartsOfTheSameFive) {
  // 8 | 7 | 0, then 8 | 7 | 6; 5 | 4 | 0; then 8 + 0 | 7 + 4 | 6 + 5.
  const std::vector<uint64_t> loads = {4, 5, 6, 7, 8};
  const std::vector<uint32_t> part_of = KarmarkarKarp(loads, 3);
  EXPECT_THAT(SumsOf(loads, part_of, 3), ElementsAre(11, 11, 8));
  EXPECT_EQ(part_of[4], 2);
  EXPECT_EQ(part_of[3], part_of[0]);
  EXPECT_EQ(part_of[2], part_of[1]);
}

TEST(KarmarkarKarpTest, EqualSizesOfARunOfNumbersAreEqualSums) {
  const std::vector<uint64_t> loads = {3, 8, 1, 6, 5, 2, 7, 4};
  for (uint32_t parts : {1u, 2u, 4u, 8u}) {
    EXPECT_THAT(CountsOf(KarmarkarKarpEqual(loads, parts), parts), Each(8 / parts));
  }
  EXPECT_THAT(SumsOf(loads, KarmarkarKarpEqual(loads, 2), 2), ElementsAre(18, 18));
}

TEST(KarmarkarKarpTest, EqualSizesKeepTheCountWhereSumsCannotBeEven) {
  // One long answer among short ones: with free sizes it stays alone, with equal sizes it can't.
  const std::vector<uint64_t> loads = {90, 10, 10, 10, 10, 10};
  EXPECT_THAT(SumsOf(loads, KarmarkarKarp(loads, 2), 2), ElementsAre(90, 50));
  const std::vector<uint32_t> equal = KarmarkarKarpEqual(loads, 2);
  EXPECT_THAT(SumsOf(loads, equal, 2), ElementsAre(110, 30));
  EXPECT_THAT(CountsOf(equal, 2), Each(3));
}

TEST(KarmarkarKarpTest, EqualSizesAreWithinOneWherePartsDoNotDivide) {
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    const auto parts = static_cast<uint32_t>(random.Between(1, 9));
    const std::vector<uint64_t> loads = RandomLoads(random, random.Between(1, 40));
    for (const uint64_t count : CountsOf(KarmarkarKarpEqual(loads, parts), parts)) {
      ASSERT_GE(count, loads.size() / parts) << "seed " << seed;
      ASSERT_LE(count, (loads.size() + parts - 1) / parts) << "seed " << seed;
    }
  }
}

TEST(KarmarkarKarpTest, NothingAndOnePartAndOnePartEach) {
  EXPECT_TRUE(KarmarkarKarp({}, 3).empty());
  EXPECT_TRUE(KarmarkarKarpEqual({}, 3).empty());
  const std::vector<uint64_t> loads = {5, 9, 7};
  EXPECT_THAT(KarmarkarKarp(loads, 1), ElementsAre(0, 0, 0));
  EXPECT_THAT(KarmarkarKarp(loads, 3), ElementsAre(2, 0, 1));
  EXPECT_THAT(KarmarkarKarpEqual(loads, 3), ElementsAre(2, 0, 1));
}

TEST(KarmarkarKarpTest, SumsAreThoseOfTheRuleOnRandomLoads) {
  uint64_t compared = 0;
  const uint64_t cases = testing::Cases(3000);
  for (const uint64_t seed : testing::Seeds(3000)) {
    RandomStream random(seed);
    const auto parts = static_cast<uint32_t>(random.Between(1, 6));
    const std::vector<uint64_t> loads = RandomLoads(random, random.Between(1, 24));
    if (const auto naive = NaiveSums(loads, parts)) {
      ++compared;
      ASSERT_EQ(SumsOf(loads, KarmarkarKarp(loads, parts), parts), *naive) << "seed " << seed;
    }
    const std::vector<uint64_t> divisible = RandomLoads(random, parts * random.Between(1, 8));
    if (const auto naive = NaiveEqualSums(divisible, parts)) {
      ++compared;
      ASSERT_EQ(SumsOf(divisible, KarmarkarKarpEqual(divisible, parts), parts), *naive)
          << "seed " << seed;
    }
  }
  EXPECT_GT(compared, cases / 2);
}

TEST(KarmarkarKarpTest, PartsFallInSumAndDifferByNoMoreThanTheLargestLoad) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    RandomStream random(seed);
    const auto parts = static_cast<uint32_t>(random.Between(1, 40));
    const std::vector<uint64_t> loads = RandomLoads(random, parts * random.Between(1, 6));
    const uint64_t largest = *std::max_element(loads.begin(), loads.end());
    const std::vector<uint32_t> free_sizes = KarmarkarKarp(loads, parts);
    const std::vector<uint32_t> equal_sizes = KarmarkarKarpEqual(loads, parts);
    for (const std::vector<uint32_t>& part_of : {free_sizes, equal_sizes}) {
      const std::vector<uint64_t> sums = SumsOf(loads, part_of, parts);
      ASSERT_TRUE(std::is_sorted(sums.begin(), sums.end(), std::greater<>())) << "seed " << seed;
      ASSERT_LE(sums.front() - sums.back(), largest) << "seed " << seed;
    }
    ASSERT_THAT(CountsOf(equal_sizes, parts), Each(loads.size() / parts)) << "seed " << seed;
    if (loads.size() - std::count(loads.begin(), loads.end(), 0u) >= parts) {
      ASSERT_THAT(CountsOf(free_sizes, parts), Each(::testing::Ge(1))) << "seed " << seed;
    }
  }
}

TEST(KarmarkarKarpTest, EqualLoadsAreSpreadEvenly) {
  for (uint32_t parts : {2u, 3u, 7u, 64u}) {
    const std::vector<uint64_t> loads(size_t{parts} * 5, 12);
    EXPECT_THAT(SumsOf(loads, KarmarkarKarp(loads, parts), parts), Each(60));
    EXPECT_THAT(SumsOf(loads, KarmarkarKarpEqual(loads, parts), parts), Each(60));
  }
}

TEST(KarmarkarKarpTest, TotalsUpTo63BitsDoNotOverflow) {
  const std::vector<uint64_t> loads(4, (uint64_t{1} << 61) - 1);
  EXPECT_THAT(SumsOf(loads, KarmarkarKarp(loads, 2), 2), Each((uint64_t{1} << 62) - 2));
  EXPECT_THAT(SumsOf(loads, KarmarkarKarpEqual(loads, 2), 2), Each((uint64_t{1} << 62) - 2));
}

TEST(KarmarkarKarpTest, ManyPartsAreNoObstacle) {
  RandomStream random(3);
  constexpr uint32_t kParts = 20000;
  std::vector<uint64_t> loads(size_t{kParts} * 3);
  for (uint64_t& load : loads) load = random.Between(1, 100000);
  EXPECT_THAT(CountsOf(KarmarkarKarpEqual(loads, kParts), kParts), Each(3));
  EXPECT_THAT(CountsOf(KarmarkarKarp(loads, kParts), kParts), Each(::testing::Ge(1)));
}

}  // namespace
}  // namespace batchplan
