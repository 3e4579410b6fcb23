#include "server/planner/balance/count_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/assignments.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;

TEST(CountBoundTest, WhatMayBeEmptyProvesNothing) {
  EXPECT_EQ(LockstepCountBound({3, 1, 2}, 2, {.slots = 1}), 0);
  EXPECT_EQ(AccumulatedCountBound({3, 1, 2}, {.slots = 1}), 0);
  // Five sequences are no six micro-batches.
  EXPECT_EQ(LockstepCountBound({1, 2, 3, 4, 5}, 2, {.slots = 3, .in_microbatch = 1}), 0);
  EXPECT_EQ(AccumulatedCountBound({1, 2}, {.slots = 3, .in_microbatch = 1}), 0);
}

// In two slots of two, one sequence each: 2 beside 1, and 4 beside 3.
TEST(CountBoundTest, EachSlotHasItsOwnSequences) {
  EXPECT_EQ(LockstepCountBound({4, 1, 3, 2}, 2, {.slots = 2, .in_microbatch = 1}), 2 + 4);
  // The rank of 4 has 1 besides.
  EXPECT_EQ(AccumulatedCountBound({4, 1, 3, 2}, {.slots = 2, .in_microbatch = 1}), 4 + 1);
}

// Of micro-batches of two, 50 has 10 beside it, and 90 too.
TEST(CountBoundTest, MicrobatchesOfSeveralHaveTheCheapestBeside) {
  EXPECT_EQ(LockstepCountBound({90, 10, 50, 20}, 1, {.slots = 2, .in_microbatch = 2}),
            20 + 10 + 90 + 10);
  EXPECT_EQ(LockstepCountBound({90, 10, 50, 20}, 2, {.slots = 1, .in_microbatch = 2}), 90 + 10);
}

TEST(CountBoundTest, RanksOfEquallyManyHaveTheCheapestBeside) {
  EXPECT_EQ(AccumulatedCountBound({90, 10, 50, 20}, {.slots = 1, .on_rank = 2}), 90 + 10);
  EXPECT_EQ(AccumulatedCountBound({90, 10, 50, 20}, {.slots = 1, .in_microbatch = 3, .on_rank = 2}),
            90 + 10 + 20);
}

TEST(CountBoundTest, WhatIsProvenAlreadyIsNotSought) {
  const LeastCounts least = {.slots = 2, .in_microbatch = 1};
  EXPECT_EQ(LockstepCountBound({4, 1, 3, 2}, 2, least, /*proven=*/5), 6);
  EXPECT_EQ(LockstepCountBound({4, 1, 3, 2}, 2, least, /*proven=*/8), 0);
}

TEST(CountBoundTest, CostsNearTheLimitDoNotOverflow) {
  constexpr uint64_t kUnit = uint64_t{1} << 60;
  const std::vector<uint64_t> costs = {kUnit, kUnit, kUnit, kUnit};
  EXPECT_EQ(LockstepCountBound(costs, 1, {.slots = 2, .in_microbatch = 2}), 4 * kUnit);
  EXPECT_EQ(AccumulatedCountBound(costs, {.slots = 2, .in_microbatch = 2}), 4 * kUnit);
}

struct Few {
  std::vector<uint64_t> costs;
  uint32_t ranks = 1;
  LeastCounts least;

  std::string Describe() const {
    return absl::StrCat("costs ", absl::StrJoin(costs, ","), " ranks ", ranks, " slots ",
                        least.slots, " in a micro-batch ", least.in_microbatch, " on a rank ",
                        least.on_rank);
  }

  // What a step takes, slot s of rank r being bin r * slots + s; nothing if a count is below the
  // least.
  std::optional<double> Time(const std::vector<uint32_t>& bin_of, uint32_t slots,
                             bool lockstep) const {
    std::vector<uint64_t> sums(size_t{ranks} * slots, 0);
    std::vector<uint64_t> counts(sums.size(), 0);
    for (size_t i = 0; i < bin_of.size(); ++i) {
      sums[bin_of[i]] += costs[i];
      ++counts[bin_of[i]];
    }
    if (std::ranges::min(counts) < least.in_microbatch) return std::nullopt;
    std::vector<uint64_t> of_rank(ranks, 0);
    std::vector<uint64_t> of_slot(slots, 0);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      uint64_t sequences = 0;
      for (uint32_t slot = 0; slot < slots; ++slot) {
        const size_t bin = size_t{rank} * slots + slot;
        sequences += counts[bin];
        of_rank[rank] += sums[bin];
        of_slot[slot] = std::max(of_slot[slot], sums[bin]);
      }
      if (sequences < least.on_rank) return std::nullopt;
    }
    return static_cast<double>(lockstep ? std::accumulate(of_slot.begin(), of_slot.end(), 0ull)
                                        : std::ranges::max(of_rank));
  }

  // The shortest step in at least as many slots.
  std::optional<double> Best(bool lockstep) const {
    return testing::ShortestStep(
        costs.size(), ranks, static_cast<uint32_t>(costs.size()),
        [&](const std::vector<uint32_t>& bin_of, uint32_t slots) -> std::optional<double> {
          if (slots < least.slots) return std::nullopt;
          return Time(bin_of, slots, lockstep);
        });
  }
};

TEST(CountBoundTest, NeverExceedsTheOptimum) {
  RandomStream random(testing::Seed(7));
  int possible = 0;
  int met = 0;
  for (uint64_t i = 0; i < testing::Cases(400); ++i) {
    Few few;
    few.ranks = static_cast<uint32_t>(random.Between(1, 2));
    const uint64_t sequences = random.Between(1, 5);
    for (uint64_t k = 0; k < sequences; ++k) few.costs.push_back(random.Between(0, 20));
    few.least = {.slots = random.Between(1, 3),
                 .in_microbatch = random.Between(0, 2),
                 .on_rank = random.Between(0, 2)};
    const std::optional<double> lockstep = few.Best(/*lockstep=*/true);
    if (!lockstep) continue;
    ++possible;
    const auto bound =
        static_cast<double>(LockstepCountBound(few.costs, few.ranks, few.least, /*proven=*/0));
    EXPECT_LE(bound, *lockstep) << few.Describe();
    const auto accumulated = static_cast<double>(AccumulatedCountBound(few.costs, few.least));
    EXPECT_LE(accumulated, *few.Best(/*lockstep=*/false)) << few.Describe();
    EXPECT_LE(accumulated, *lockstep) << few.Describe();
    met += bound == *lockstep ? 1 : 0;
  }
  EXPECT_GT(possible, testing::Cases(100));
  EXPECT_GT(met, possible / 20);
}

}  // namespace
}  // namespace batchplan
