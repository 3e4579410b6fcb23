// The examples of the documents that batchplan follows, edge cases, and random micro-batches
// compared with a loop that shares no code with the library.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "layout_runner.h"
#include "random_cases.h"

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

TEST_P(LayoutTest, LargestRowThatFitsIntoSignedOffsetsIsLegal) {
  const LayoutResult result = Run(
      {INT32_MAX - 1, 1}, {.length_multiple = 1, .context_parallel = 1, .row_width = INT32_MAX});
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_THAT(result.cu_seqlens_padded, ElementsAre(0, INT32_MAX - 1, INT32_MAX));
  EXPECT_EQ(result.max_seqlen_padded, INT32_MAX - 1);
}

// Lays out a row token by token, as a person would. Ignores the row's width.
LayoutResult NaiveLayout(const std::vector<uint32_t>& lengths, int32_t multiple,
                         int32_t context_parallel) {
  LayoutResult naive;
  int32_t seen = 0;
  int32_t position = 0;
  const auto close_sequence = [&] {
    naive.cu_seqlens.push_back(seen);
    naive.cu_seqlens_padded.push_back(position);
    naive.cu_seqlens_padded_per_rank.push_back(position / context_parallel);
  };
  close_sequence();
  for (const uint32_t length : lengths) {
    const int32_t begin = position;
    for (uint32_t token = 0; token < length; ++token) {
      ++seen;
      ++position;
    }
    while (position % multiple != 0) ++position;
    naive.max_seqlen = std::max(naive.max_seqlen, static_cast<int32_t>(length));
    naive.max_seqlen_padded = std::max(naive.max_seqlen_padded, position - begin);
    close_sequence();
  }
  return naive;
}

void ExpectSameLayout(const LayoutResult& actual, const LayoutResult& expected) {
  EXPECT_EQ(actual.status, BATCHPLAN_OK);
  EXPECT_EQ(actual.cu_seqlens, expected.cu_seqlens);
  EXPECT_EQ(actual.cu_seqlens_padded, expected.cu_seqlens_padded);
  EXPECT_EQ(actual.cu_seqlens_padded_per_rank, expected.cu_seqlens_padded_per_rank);
  EXPECT_EQ(actual.max_seqlen, expected.max_seqlen);
  EXPECT_EQ(actual.max_seqlen_padded, expected.max_seqlen_padded);
}

std::vector<uint32_t> RandomLengths(std::mt19937& random, size_t count, uint32_t longest) {
  std::vector<uint32_t> lengths(count);
  for (uint32_t& length : lengths) {
    length = static_cast<uint32_t>(random() % 4 == 0 ? 0 : random() % (longest + 1));
  }
  return lengths;
}

TEST_P(LayoutTest, RandomMicroBatchesAreLaidOutAsALoopWould) {
  std::mt19937 random(Seed(20240607));
  for (uint64_t round = 0; round < Cases(300); ++round) {
    const auto context_parallel = static_cast<uint32_t>(1 + random() % 8);
    const auto factor = static_cast<uint32_t>(1 + random() % 5);
    const uint32_t multiple = (context_parallel > 1 ? 2 * context_parallel : 1) * factor;
    const std::vector<uint32_t> lengths = RandomLengths(random, random() % 200, 300);
    const LayoutResult expected = NaiveLayout(lengths, static_cast<int32_t>(multiple),
                                              static_cast<int32_t>(context_parallel));
    const auto total = static_cast<uint32_t>(expected.cu_seqlens_padded.back());
    const auto tail = static_cast<uint32_t>(random() % 3 * multiple);
    SCOPED_TRACE(testing::Message() << "round " << round << ", " << lengths.size() << " sequences, "
                                    << "multiple " << multiple << ", CP " << context_parallel);

    ExpectSameLayout(Run(lengths, {.length_multiple = multiple,
                                   .context_parallel = context_parallel,
                                   .row_width = total + tail}),
                     expected);
    if (total > 0) {
      EXPECT_EQ(Run(lengths, {.length_multiple = multiple,
                              .context_parallel = context_parallel,
                              .row_width = total - multiple})
                    .status,
                BATCHPLAN_ERROR_ROW_TOO_NARROW);
    }
  }
}

// Numbers around the sizes of a warp, a block and a tile, and far above the 12k sequences at which
// other libraries run out of shared memory.
TEST_P(LayoutTest, EveryNumberOfSequencesIsLaidOutAsALoopWould) {
  std::mt19937 random(Seed(7));
  for (const size_t count : {0U, 1U, 31U, 32U, 33U, 511U, 512U, 513U, 2047U, 2048U, 2049U, 4095U,
                             4096U, 4097U, 12289U, 100000U, 150001U}) {
    SCOPED_TRACE(testing::Message() << count << " sequences");
    const std::vector<uint32_t> lengths = RandomLengths(random, count, 60);
    const LayoutResult expected = NaiveLayout(lengths, 16, 4);
    const auto total = static_cast<uint32_t>(expected.cu_seqlens_padded.back());
    ExpectSameLayout(
        Run(lengths, {.length_multiple = 16, .context_parallel = 4, .row_width = total}), expected);
  }
}

}  // namespace
}  // namespace batchplan::kernels
