#include "server/planner/balance/exchange_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/server/planner/balance/partitions.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::CountsOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::LargestSum;
using testing::RandomStream;
using testing::SumsOf;

constexpr uint64_t kEnough = 1'000'000;

TEST(RefinePartsTest, MovesSwapsAndSwapsTwoForOne) {
  const std::vector<uint64_t> move = {4, 4, 4, 4};
  EXPECT_THAT(SumsOf(move, RefineParts(move, {0, 0, 0, 1}, 2, {}, 8, kEnough), 2),
              ElementsAre(8, 8));
  const std::vector<uint64_t> swap = {7, 6, 5, 4};
  EXPECT_THAT(SumsOf(swap, RefineParts(swap, {0, 0, 1, 1}, 2, {}, 11, kEnough), 2),
              ElementsAre(11, 11));
  // Four fives and two eights: any one exchange goes too far, two fives for an eight do not.
  const std::vector<uint64_t> two = {5, 5, 5, 5, 8, 8};
  EXPECT_THAT(SumsOf(two, RefineParts(two, {0, 0, 0, 0, 1, 1}, 2, {}, 18, kEnough), 2),
              ElementsAre(18, 18));
}

TEST(RefinePartsTest, SequencesAreExchangedForAsManyWherePartsKeepTheirNumber) {
  // A block of four for two of two.
  const std::vector<uint64_t> loads = {40, 40, 10, 10, 30, 30};
  const std::vector<uint32_t> counts = {4, 4, 2, 2, 2, 2};
  const RefineRules rules = {.counts = counts, .equal_counts = true};
  const std::vector<uint32_t> part_of =
      RefineParts(loads, {0, 0, 1, 1, 1, 1}, 2, rules, 80, kEnough);
  EXPECT_THAT(SumsOf(loads, part_of, 2), ElementsAre(80, 80));
}

TEST(RefinePartsTest, NothingToDoIsNothingDone) {
  EXPECT_THAT(RefineParts({}, {}, 3, {}, 0, kEnough), IsEmpty());
  const std::vector<uint64_t> loads = {9, 1};
  EXPECT_THAT(RefineParts(loads, {0, 0}, 1, {}, 0, kEnough), ElementsAre(0, 0));
  EXPECT_THAT(RefineParts(loads, {0, 0}, 2, {}, 10, kEnough), ElementsAre(0, 0));
  EXPECT_THAT(RefineParts(loads, {0, 0}, 2, {}, 0, 0), ElementsAre(0, 0));
  EXPECT_THAT(RefineParts(loads, {0, 0}, 2, {.least_each = 1}, 0, kEnough), ElementsAre(0, 1));
}

TEST(RefinePartsTest, RulesAreKeptAndTheLargestSumNeverRises) {
  for (const uint64_t seed : testing::Seeds(2000)) {
    RandomStream random(seed);
    const auto parts = static_cast<uint32_t>(random.Between(1, 9));
    const std::vector<uint64_t> loads = testing::MixedLoads(random, random.Between(1, 120));
    std::vector<uint32_t> part_of;
    std::vector<uint32_t> counts;
    for (size_t i = 0; i < loads.size(); ++i) {
      part_of.push_back(static_cast<uint32_t>(random.Between(0, parts - 1)));
      counts.push_back(static_cast<uint32_t>(random.Between(1, 3)));
    }
    RefineRules rules = {.equal_counts = random.Chance(50),
                         .least_each = static_cast<uint32_t>(random.Between(0, 3))};
    if (random.Chance(50)) rules.counts = counts;
    const auto sequences_of = [&](const std::vector<uint32_t>& of) {
      std::vector<uint64_t> sequences(parts, 0);
      for (size_t i = 0; i < of.size(); ++i) {
        sequences[of[i]] += rules.counts.empty() ? 1 : counts[i];
      }
      return sequences;
    };
    const uint64_t steps = random.OneOf<uint64_t>({0, 10, 1000, kEnough});
    const std::vector<uint32_t> refined = RefineParts(loads, part_of, parts, rules, 0, steps);
    ASSERT_EQ(refined.size(), loads.size());
    ASSERT_LE(LargestSum(loads, refined, parts), LargestSum(loads, part_of, parts));
    if (rules.equal_counts) {
      // If parts are within one of each other, a part with one more may give one away.
      std::vector<uint64_t> was = sequences_of(part_of);
      std::vector<uint64_t> is = sequences_of(refined);
      if (std::ranges::max(was) - std::ranges::min(was) == 1) {
        std::ranges::sort(was);
        std::ranges::sort(is);
      }
      ASSERT_EQ(is, was) << seed;
    }
    const std::vector<uint64_t> before = CountsOf(part_of, parts);
    const std::vector<uint64_t> after = CountsOf(refined, parts);
    for (uint32_t part = 0; part < parts; ++part) {
      ASSERT_GE(after[part], std::min<uint64_t>(before[part], rules.least_each)) << seed;
    }
    ASSERT_EQ(refined, RefineParts(loads, part_of, parts, rules, 0, steps)) << seed;
  }
}

TEST(RefinePartsTest, TotalsUpTo62BitsDoNotOverflow) {
  const std::vector<uint64_t> loads(4, (uint64_t{1} << 60) - 1);
  EXPECT_THAT(SumsOf(loads, RefineParts(loads, {0, 0, 0, 0}, 2, {}, 0, kEnough), 2),
              ElementsAre(loads[0] * 2, loads[0] * 2));
}

}  // namespace
}  // namespace batchplan
