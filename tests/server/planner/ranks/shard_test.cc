#include "server/planner/ranks/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace batchplan {
namespace {

using ::testing::ElementsAre;

uint64_t LargestSum(std::span<const uint64_t> loads, std::span<const size_t> offsets) {
  uint64_t largest = 0;
  for (size_t run = 0; run + 1 < offsets.size(); ++run) {
    uint64_t sum = 0;
    for (size_t i = offsets[run]; i < offsets[run + 1]; ++i) sum += loads[i];
    largest = std::max(largest, sum);
  }
  return largest;
}

// The least largest sum, by trying every cut.
uint64_t BruteForce(std::span<const uint64_t> loads, size_t runs) {
  if (runs == 1) return LargestSum(loads, std::vector<size_t>{0, loads.size()});
  uint64_t best = std::numeric_limits<uint64_t>::max();
  uint64_t first = 0;
  for (size_t cut = 1; cut + runs - 1 <= loads.size(); ++cut) {
    first += loads[cut - 1];
    best = std::min(best, std::max(first, BruteForce(loads.subspan(cut), runs - 1)));
  }
  return best;
}

TEST(CutIntoRunsTest, CutsWhereTheHeaviestRunIsLightest) {
  EXPECT_THAT(CutIntoRuns(std::vector<uint64_t>{1, 2, 3, 4, 5}, 2), ElementsAre(0, 3, 5));
}

TEST(CutIntoRunsTest, EveryRunHasAtLeastOne) {
  EXPECT_THAT(CutIntoRuns(std::vector<uint64_t>{0, 0, 0}, 3), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(CutIntoRuns(std::vector<uint64_t>{9, 1, 1}, 3), ElementsAre(0, 1, 2, 3));
}

TEST(CutIntoRunsTest, EqualsBruteForceOnRandomLoads) {
  std::mt19937_64 engine(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint64_t> loads(1 + engine() % 9);
    for (uint64_t& load : loads) load = engine() % 20;
    const size_t runs = 1 + engine() % loads.size();
    const std::vector<size_t> offsets = CutIntoRuns(loads, runs);
    ASSERT_EQ(offsets.size(), runs + 1);
    for (size_t run = 0; run < runs; ++run) ASSERT_LT(offsets[run], offsets[run + 1]);
    ASSERT_EQ(LargestSum(loads, offsets), BruteForce(loads, runs));
  }
}

}  // namespace
}  // namespace batchplan
