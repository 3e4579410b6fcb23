#include "tests/support/generators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/brute_force.h"

namespace batchplan::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;

TEST(GeneratorsTest, LengthsAreWithinTheirStatedLimits) {
  EXPECT_THAT(MathsLengths(5000, 1), Each(AllOf(Ge(16), Le(16384))));
  EXPECT_THAT(LongCotLengths(5000, 1), Each(AllOf(Ge(64), Le(65536))));
  EXPECT_THAT(ZipfLengths(5000, 1), Each(AllOf(Ge(8), Le(8192))));
  EXPECT_THAT(AgenticLengths(5000, 1), Each(AllOf(Ge(64), Le(32768))));
  EXPECT_THAT(UniformLengths(5000, 1, 100), Each(AllOf(Ge(25), Le(50))));
}

TEST(GeneratorsTest, TheMedianOfMathsIs900) {
  std::vector<uint32_t> lengths = MathsLengths(20001, 7);
  std::nth_element(lengths.begin(), lengths.begin() + 10000, lengths.end());
  EXPECT_NEAR(lengths[10000], 900, 30);
}

TEST(GeneratorsTest, TripletsFillTheirBinsExactly) {
  for (uint32_t capacity = 64; capacity < 200; ++capacity) {
    const std::vector<uint32_t> lengths = TripletLengths(4, capacity, capacity);
    ASSERT_EQ(lengths.size(), 12u);
    EXPECT_THAT(lengths, Each(AllOf(Ge(capacity / 4 + 1), Le((capacity - 1) / 2))));
    EXPECT_EQ(BruteForceMinBins(lengths, capacity), 4u);
  }
}

TEST(GeneratorsTest, ASeedGivesTheSameNumbersEverywhere) {
  // Written down once; another compiler or library has to reproduce them.
  EXPECT_THAT(MathsLengths(6, 42), ::testing::ElementsAre(537, 772, 689, 504, 1088, 1230));
  EXPECT_THAT(ZipfLengths(6, 42), ::testing::ElementsAre(1500, 671, 1469, 20, 4189, 15));
}

}  // namespace
}  // namespace batchplan::testing
