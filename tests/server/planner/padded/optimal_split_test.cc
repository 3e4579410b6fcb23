#include "server/planner/padded/optimal_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "server/planner/padded/sorted_scan.h"
#include "tests/server/planner/padded/random_items.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::AllSplits;
using ::testing::ElementsAre;
using testing::IsSplit;
using testing::RandomItems;
using testing::RandomStream;
using testing::TokensOf;

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

TEST(OptimalSplitTest, CutsWhereTheWidthsJump) {
  // The scan fills the first run with the 9.
  const std::vector<uint32_t> widths = {1, 1, 9, 9, 9};
  const PaddedLimits limits = {.tokens = 27};
  EXPECT_THAT(SortedScan({.widths = widths}, limits), ElementsAre(0, 3, 5));
  EXPECT_THAT(OptimalSplit({.widths = widths}, limits, 2), ElementsAre(0, 2, 5));
}

TEST(OptimalSplitTest, OneRunEach) {
  const std::vector<uint32_t> widths = {2, 2, 2};
  EXPECT_THAT(OptimalSplit({.widths = widths}, {.tokens = 6}, 1), ElementsAre(0, 3));
  EXPECT_THAT(OptimalSplit({.widths = widths}, {.tokens = 6}, 3), ElementsAre(0, 1, 2, 3));
}

TEST(OptimalSplitTest, HasTheFewestTokensOfAllSplitsIntoAsManyRuns) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    const RandomItems items(random, 11);
    std::vector<uint64_t> least(items.widths.size() + 1, kNever);
    for (const Cuts& cuts : AllSplits(items.view(), items.limits)) {
      uint64_t& tokens = least[cuts.size() - 1];
      tokens = std::min(tokens, TokensOf(cuts, items.view()));
    }
    const size_t fewest = SortedScan(items.view(), items.limits).size() - 1;
    for (size_t runs = fewest; runs <= items.widths.size(); ++runs) {
      const Cuts cuts = OptimalSplit(items.view(), items.limits, runs);
      ASSERT_EQ(cuts.size(), runs + 1) << "seed " << seed;
      ASSERT_TRUE(IsSplit(cuts, items.view(), items.limits)) << "seed " << seed << " runs " << runs;
      ASSERT_EQ(TokensOf(cuts, items.view()), least[runs]) << "seed " << seed << " runs " << runs;
    }
  }
}

// By dynamic programming over (runs, items), without any of the structure. O(runs n^2).
uint64_t LeastTokens(const RandomItems& items, size_t runs) {
  const size_t count = items.widths.size();
  std::vector<uint64_t> least(count + 1, kNever);
  least[0] = 0;
  for (size_t run = 0; run < runs; ++run) {
    std::vector<uint64_t> next(count + 1, kNever);
    for (size_t end = 1; end <= count; ++end) {
      uint64_t sequences = 0;
      for (size_t begin = end; begin-- > 0;) {
        sequences += items.view().count(begin);
        if (!items.limits.Allow(sequences, items.widths[end - 1])) break;
        if (least[begin] == kNever) continue;
        next[end] = std::min(next[end], least[begin] + sequences * items.widths[end - 1]);
      }
    }
    least = std::move(next);
  }
  return least[count];
}

TEST(OptimalSplitTest, HasTheFewestTokensOfLargerInstancesToo) {
  for (const uint64_t seed : testing::Seeds(100)) {
    RandomStream random(seed);
    const RandomItems items(random, 80);
    const size_t fewest = SortedScan(items.view(), items.limits).size() - 1;
    const size_t runs = random.Between(fewest, std::min(items.widths.size(), fewest + 10));
    const Cuts cuts = OptimalSplit(items.view(), items.limits, runs);
    ASSERT_EQ(cuts.size(), runs + 1) << "seed " << seed;
    ASSERT_TRUE(IsSplit(cuts, items.view(), items.limits)) << "seed " << seed;
    ASSERT_EQ(TokensOf(cuts, items.view()), LeastTokens(items, runs)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace batchplan
