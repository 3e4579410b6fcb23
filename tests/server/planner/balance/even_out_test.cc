#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "server/planner/balance/bin_filling.h"
#include "server/planner/balance/few_items.h"
#include "tests/server/planner/balance/instances.h"

namespace batchplan {
namespace {

using testing::BalanceInstance;
using testing::RandomStream;

uint64_t TimeOf(const BalanceInstance& instance, const Filling& filling, RankRule rule) {
  const std::vector<uint64_t> costs = testing::BinCosts(instance, testing::BinsOf(filling));
  return rule == RankRule::kFree ? testing::DealtLockstepTime(costs, instance.ranks)
                                 : testing::SortedLockstepTime(costs, instance.ranks);
}

TEST(EvenOutTest, TheStepIsNeverLongerThanBeforeAndAsLongAsIsSaid) {
  uint64_t shortened = 0;
  for (const uint64_t seed : testing::Seeds(6000)) {
    RandomStream random(seed);
    const auto rule =
        random.OneOf<RankRule>({RankRule::kFree, RankRule::kEqualCounts, RankRule::kFixed});
    const BalanceInstance instance =
        testing::RandomBalance(random, {.counts = rule != RankRule::kEqualCounts});
    const SortedTask task = instance.task();
    Filling filling = testing::FillingOf(task, instance.solution);
    const uint64_t before = TimeOf(instance, filling, rule);
    const EvenOutOptions options = {.enough = random.Chance(20) ? random.Between(0, before) : 0,
                                    .steps = random.OneOf<uint64_t>({0, 1, 10, 100000}),
                                    .patience = random.OneOf<uint32_t>({1, 4, 64}),
                                    .pairs = random.Chance(50),
                                    .skip_stuck_slots = random.Chance(50),
                                    .ranks = rule};
    const uint64_t after = EvenOut(options, filling);
    const Bins bins = testing::BinsOf(filling);
    ASSERT_EQ(testing::Fault(instance, bins), "") << instance.Describe();
    ASSERT_LE(after, before) << instance.Describe();
    ASSERT_EQ(after, TimeOf(instance, filling, rule)) << instance.Describe();
    shortened += after < before;
    if (rule == RankRule::kEqualCounts) {
      // If ranks are within one of each other, a rank with one more may give one away.
      std::vector<uint64_t> was = testing::RankCounts(instance, instance.solution);
      std::vector<uint64_t> is = testing::RankCounts(instance, bins);
      if (std::ranges::max(was) - std::ranges::min(was) == 1) {
        std::ranges::sort(was);
        std::ranges::sort(is);
      }
      ASSERT_EQ(is, was) << instance.Describe();
    }
    if (rule == RankRule::kFixed) {
      const std::vector<uint32_t> rank_of = instance.SolutionRanks();
      for (uint32_t i = 0; i < task.size(); ++i) {
        ASSERT_EQ(filling.BinOf(i) / task.slots, rank_of[task.item[i]]) << instance.Describe();
      }
    }
    if (options.steps == 0 || before <= options.enough) {
      const Filling untouched = testing::FillingOf(task, instance.solution);
      ASSERT_TRUE(std::ranges::equal(filling.bin_of(), untouched.bin_of()));
    }
  }
  EXPECT_GT(shortened, testing::Cases(6000) / 10);
}

TEST(EvenOutTest, TheSameIsFoundTwice) {
  for (const uint64_t seed : testing::Seeds(500)) {
    RandomStream random(seed);
    const BalanceInstance instance = testing::RandomBalance(random);
    const SortedTask task = instance.task();
    Filling first = testing::FillingOf(task, instance.solution);
    Filling second = testing::FillingOf(task, instance.solution);
    EvenOut({.steps = 10000, .pairs = true}, first);
    EvenOut({.steps = 10000, .pairs = true}, second);
    ASSERT_TRUE(std::ranges::equal(first.bin_of(), second.bin_of())) << instance.Describe();
  }
}

TEST(EvenOutTest, OneLongForTwoShortTakesPairs) {
  // One for one changes too much or goes the wrong way; 9 for 4 + 4, or 5 + 5 for 9, is right.
  struct Case {
    std::vector<uint64_t> costs;
    uint32_t in_first;  // the costliest, in one bin; the rest in the other
    uint64_t before;
    uint64_t after;
  };
  for (const Case& c : {Case{{9, 9, 4, 4, 4, 4}, 2, 18, 17}, Case{{9, 9, 5, 5, 5, 5}, 2, 20, 19}}) {
    const BalanceInstance instance{.lengths = std::vector<uint32_t>(c.costs.size(), 1),
                                   .costs = c.costs,
                                   .limits = {.capacity = 24},
                                   .ranks = 2};
    const SortedTask task = instance.task();
    for (const bool pairs : {false, true}) {
      Filling filling(task);
      for (uint32_t i = 0; i < task.size(); ++i) filling.Place(i, i < c.in_first ? 0 : 1);
      const uint64_t time = EvenOut({.steps = 1000, .pairs = pairs}, filling);
      EXPECT_EQ(time, pairs ? c.after : c.before);
      EXPECT_EQ(time, TimeOf(instance, filling, RankRule::kFree));
    }
  }
}

TEST(EvenOutTest, ARequestToStopEndsTheSearch) {
  const std::vector<uint32_t> lengths = {3, 3, 2, 2};
  const std::vector<uint64_t> costs = {3, 3, 2, 2};
  const SortedTask task({.lengths = lengths, .loads = costs}, {.capacity = 24}, 2, 1);
  std::stop_source stop;
  for (const bool stopped : {false, true}) {
    if (stopped) stop.request_stop();
    Filling filling(task);
    for (uint32_t i = 0; i < task.size(); ++i) filling.Place(i, i / 2);
    EXPECT_EQ(EvenOut({.steps = 1000, .allowance = stop.get_token()}, filling), stopped ? 6 : 5);
  }
}

// All exchanges of one item for at most one; with `pairs`, also of up to two for one. An only item
// is not moved.
bool AnyTransfers(const std::vector<int64_t>& gives, const std::vector<int64_t>& takes, bool pairs,
                  int64_t least, int64_t most) {
  std::vector<std::pair<int64_t, size_t>> out;
  std::vector<std::pair<int64_t, size_t>> in = {{0, 0}};
  const auto add = [pairs](const std::vector<int64_t>& costs,
                           std::vector<std::pair<int64_t, size_t>>& to) {
    for (size_t i = 0; i < costs.size(); ++i) {
      to.emplace_back(costs[i], 1);
      for (size_t j = i + 1; pairs && j < costs.size(); ++j) {
        to.emplace_back(costs[i] + costs[j], 2);
      }
    }
  };
  add(gives, out);
  add(takes, in);
  for (const auto& [given, n] : out) {
    for (const auto& [taken, m] : in) {
      const int64_t transfer = given - taken;
      if ((n == 2 && m != 1) || (m == 0 && gives.size() == 1)) continue;
      if (least <= transfer && transfer <= most) return true;
    }
  }
  return false;
}

TEST(FewItemsTest, ExchangesAreInVainIfNoneTransfersWhatIsWanted) {
  size_t in_vain = 0;
  for (const uint64_t seed : testing::Seeds(3000)) {
    RandomStream random(seed);
    const auto costs = [&](size_t count) {
      std::vector<int64_t> made;
      for (size_t i = 0; i < count; ++i) {
        made.push_back(static_cast<int64_t>(random.Between(1, 200)));
      }
      std::sort(made.rbegin(), made.rend());
      return made;
    };
    const std::vector<int64_t> gives = costs(random.Between(1, 4));
    const std::vector<int64_t> takes = costs(random.Between(1, 6));
    const bool pairs = random.Chance(50);
    const auto least = static_cast<int64_t>(random.Between(1, 50));
    const auto most = least + static_cast<int64_t>(random.Between(0, 10));
    const auto cost_of = [&](size_t i) { return takes[i]; };
    const std::optional<uint64_t> steps =
        pairs ? StepsInVain<true>(gives, takes.size(), cost_of, least, most)
              : StepsInVain<false>(gives, takes.size(), cost_of, least, most);
    EXPECT_EQ(!steps, AnyTransfers(gives, takes, pairs, least, most)) << "seed " << seed;
    if (!steps) continue;
    ++in_vain;
    EXPECT_LT(*steps, kStepsOfFewItems);
  }
  EXPECT_GT(in_vain, 0);
}

}  // namespace
}  // namespace batchplan
