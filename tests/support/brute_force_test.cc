#include "tests/support/brute_force.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchplan::testing {
namespace {

using ::testing::ElementsAre;

TEST(BruteForceTest, FindsTheFewestBins) {
  EXPECT_EQ(BruteForceMinBins({}, 10), 0u);
  const std::vector<uint32_t> mixed = {3, 2, 4, 4, 4, 5, 2};
  EXPECT_EQ(BruteForceMinBins(mixed, 12), 2u);
  EXPECT_EQ(BruteForceMinBins(mixed, 12, /*max_items=*/3), 3u);
  EXPECT_EQ(BruteForceMinBins(mixed, 12, /*max_items=*/1), 7u);
  // First fit decreasing takes three: 4 4 | 3 3 3 | 3.
  const std::vector<uint32_t> tight = {4, 3, 3, 4, 3, 3};
  EXPECT_EQ(BruteForceMinBins(tight, 10), 2u);
  EXPECT_EQ(NaiveFirstFitDecreasing(tight, 10).size(), 3u);
}

TEST(BruteForceTest, FirstFitAndBestFitDecreasingDifferWhereAFullerBinStandsLater) {
  // The bins hold 7 and 8 of 9 tokens when the 1 comes.
  const std::vector<uint32_t> later = {7, 5, 3, 1};
  EXPECT_THAT(NaiveFirstFitDecreasing(later, 9), ElementsAre(ElementsAre(0, 3), ElementsAre(1, 2)));
  EXPECT_THAT(NaiveBestFitDecreasing(later, 9), ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3)));
}

TEST(BruteForceTest, AmongEqualsTheHigherPositionGoesFirst) {
  const std::vector<uint32_t> equal = {4, 4, 4};
  EXPECT_THAT(NaiveFirstFitDecreasing(equal, 8), ElementsAre(ElementsAre(2, 1), ElementsAre(0)));
  EXPECT_THAT(NaiveBestFitDecreasing(equal, 8, /*max_items=*/1),
              ElementsAre(ElementsAre(2), ElementsAre(1), ElementsAre(0)));
}

}  // namespace
}  // namespace batchplan::testing
