// The worked examples of the documents that batchplan follows, and the edges of the layout.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout_runner.h"

namespace batchplan::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

using LayoutTest = EveryBackendLayoutTest;
BATCHPLAN_EVERY_BACKEND(LayoutTest);

// "Complete Packing Example": CP_SIZE=2, TP_SIZE=1, alignment factor 4.
TEST_P(LayoutTest, CompletePackingExampleOfFourSamplesOnTwoContextParallelRanks) {
  const LayoutResult result =
      Run({2, 4, 6, 1}, {.length_multiple = 4, .context_parallel = 2, .row_width = 20});
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_THAT(result.cu_seqlens, ElementsAre(0, 2, 6, 12, 13));
  EXPECT_THAT(result.cu_seqlens_padded, ElementsAre(0, 4, 8, 16, 20));
  EXPECT_THAT(result.cu_seqlens_padded_per_rank, ElementsAre(0, 2, 4, 8, 10));
  EXPECT_EQ(result.max_seqlen, 6);
  EXPECT_EQ(result.max_seqlen_padded, 8);
}

// "Understanding CP Load balancing": "First pack every sequence to 2 * CP * TP = 4".
TEST_P(LayoutTest, LoadBalancingExampleOfFiveEightOneThreeOnTwoContextParallelRanks) {
  const LayoutResult result =
      Run({5, 8, 1, 3}, {.length_multiple = 4, .context_parallel = 2, .row_width = 24});
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_THAT(result.cu_seqlens, ElementsAre(0, 5, 13, 14, 17));
  EXPECT_THAT(result.cu_seqlens_padded, ElementsAre(0, 8, 16, 20, 24));
  EXPECT_THAT(result.cu_seqlens_padded_per_rank, ElementsAre(0, 4, 8, 10, 12));
  EXPECT_EQ(result.max_seqlen, 8);
  EXPECT_EQ(result.max_seqlen_padded, 8);
}

TEST_P(LayoutTest, WithoutAlignmentTrueAndPaddedOffsetsAreTheSame) {
  const LayoutResult result =
      Run({3, 1, 7}, {.length_multiple = 1, .context_parallel = 1, .row_width = 11});
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_THAT(result.cu_seqlens, ElementsAre(0, 3, 4, 11));
  EXPECT_EQ(result.cu_seqlens_padded, result.cu_seqlens);
  EXPECT_EQ(result.cu_seqlens_padded_per_rank, result.cu_seqlens);
  EXPECT_EQ(result.max_seqlen, 7);
  EXPECT_EQ(result.max_seqlen_padded, 7);
}

TEST_P(LayoutTest, TailOfTheRowBelongsToNoSequence) {
  const LayoutResult result =
      Run({2, 4}, {.length_multiple = 4, .context_parallel = 2, .row_width = 64});
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_THAT(result.cu_seqlens_padded, ElementsAre(0, 4, 8));
  EXPECT_EQ(result.max_seqlen_padded, 4);
}

TEST_P(LayoutTest, SequencesOfNoTokensTakeNoRoom) {
  const LayoutResult result =
      Run({0, 3, 0, 0, 5, 0}, {.length_multiple = 4, .context_parallel = 2, .row_width = 12});
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_THAT(result.cu_seqlens, ElementsAre(0, 0, 3, 3, 3, 8, 8));
  EXPECT_THAT(result.cu_seqlens_padded, ElementsAre(0, 0, 4, 4, 4, 12, 12));
  EXPECT_THAT(result.cu_seqlens_padded_per_rank, ElementsAre(0, 0, 2, 2, 2, 6, 6));
}

TEST_P(LayoutTest, MoreSequencesOfNoTokensThanOneBlockReadsFitIntoARowOfNoWidth) {
  const LayoutResult result = Run(std::vector<uint32_t>(5000, 0),
                                  {.length_multiple = 8, .context_parallel = 4, .row_width = 0});
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_THAT(result.cu_seqlens, SizeIs(5001));
  EXPECT_THAT(result.cu_seqlens, Each(0));
  EXPECT_THAT(result.cu_seqlens_padded, Each(0));
  EXPECT_EQ(result.max_seqlen, 0);
  EXPECT_EQ(result.max_seqlen_padded, 0);
}

TEST_P(LayoutTest, NoSequencesGiveOneOffsetOfZero) {
  const LayoutResult result =
      Run({}, {.length_multiple = 4, .context_parallel = 2, .row_width = 0});
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_THAT(result.cu_seqlens, ElementsAre(0));
  EXPECT_THAT(result.cu_seqlens_padded, ElementsAre(0));
  EXPECT_THAT(result.cu_seqlens_padded_per_rank, ElementsAre(0));
  EXPECT_EQ(result.max_seqlen, 0);
  EXPECT_EQ(result.max_seqlen_padded, 0);
}

TEST_P(LayoutTest, LargestRowThatFitsIntoSignedOffsetsIsLegal) {
  const LayoutResult result = Run(
      {INT32_MAX - 1, 1}, {.length_multiple = 1, .context_parallel = 1, .row_width = INT32_MAX});
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_THAT(result.cu_seqlens_padded, ElementsAre(0, INT32_MAX - 1, INT32_MAX));
  EXPECT_EQ(result.max_seqlen_padded, INT32_MAX - 1);
}

}  // namespace
}  // namespace batchplan::kernels
