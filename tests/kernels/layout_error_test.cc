// Errors in requests, and that nothing is written out of bounds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "layout_runner.h"

namespace batchplan::kernels {
namespace {

using ::testing::Each;
using ::testing::Ne;

using LayoutErrorTest = EveryBackendLayoutTest;
BATCHPLAN_EVERY_BACKEND(LayoutErrorTest);

void ExpectEmptyLayout(const LayoutResult& result) {
  EXPECT_THAT(result.cu_seqlens, Each(0));
  EXPECT_THAT(result.cu_seqlens_padded, Each(0));
  EXPECT_THAT(result.cu_seqlens_padded_per_rank, Each(0));
  EXPECT_EQ(result.max_seqlen, 0);
  EXPECT_EQ(result.max_seqlen_padded, 0);
}

TEST_P(LayoutErrorTest, RowNarrowerThanThePaddedSequencesIsAnErrorAndTheLayoutIsEmpty) {
  // The true total, 13, would fit.
  const LayoutResult result =
      Run({2, 4, 6, 1}, {.length_multiple = 4, .context_parallel = 2, .row_width = 16});
  EXPECT_EQ(result.status, BATCHPLAN_ERROR_ROW_TOO_NARROW);
  ExpectEmptyLayout(result);
}

TEST_P(LayoutErrorTest, TotalThatOverflowsSignedOffsetsIsAnErrorAndTheLayoutIsEmpty) {
  const LayoutResult result =
      Run({INT32_MAX - 1, 1, 1}, {.length_multiple = 1, .context_parallel = 1, .row_width = 64});
  EXPECT_EQ(result.status, BATCHPLAN_ERROR_OVERFLOW);
  ExpectEmptyLayout(result);
}

TEST_P(LayoutErrorTest, TotalThatOverflowsOnlyByItsPaddingIsAnError) {
  const LayoutResult result =
      Run({INT32_MAX}, {.length_multiple = 4, .context_parallel = 2, .row_width = 64});
  EXPECT_EQ(result.status, BATCHPLAN_ERROR_OVERFLOW);
  ExpectEmptyLayout(result);
}

TEST_P(LayoutErrorTest, LargestLengthsUnderTheLargestMultipleDoNotWrapAround) {
  const LayoutResult result =
      Run(std::vector<uint32_t>(10000, UINT32_MAX),
          {.length_multiple = UINT32_MAX, .context_parallel = 1, .row_width = 64});
  EXPECT_EQ(result.status, BATCHPLAN_ERROR_OVERFLOW);
  ExpectEmptyLayout(result);
}

TEST_P(LayoutErrorTest, TotalThatWrapsAroundThirtyTwoBitsToNothingIsStillAnError) {
  const LayoutResult result = Run({uint32_t{1} << 31, uint32_t{1} << 31},
                                  {.length_multiple = 1, .context_parallel = 1, .row_width = 64});
  EXPECT_EQ(result.status, BATCHPLAN_ERROR_OVERFLOW);
  ExpectEmptyLayout(result);
}

TEST_P(LayoutErrorTest, FirstErrorStaysInTheErrorWord) {
  const batchplan_layout_options options = {
      .length_multiple = 1, .context_parallel = 1, .row_width = 4};
  EXPECT_EQ(Run({5}, options).error_word, BATCHPLAN_ERROR_ROW_TOO_NARROW);
  EXPECT_EQ(Run({5}, options, BATCHPLAN_ERROR_OVERFLOW).error_word, BATCHPLAN_ERROR_OVERFLOW);
  EXPECT_EQ(Run({1}, options, BATCHPLAN_ERROR_OVERFLOW).error_word, BATCHPLAN_ERROR_OVERFLOW);
}

TEST_P(LayoutErrorTest, MultipleThatTwiceTheContextParallelSizeDoesNotDivideIsAnError) {
  for (const uint32_t multiple : {0U, 1U, 2U, 6U, 7U}) {
    EXPECT_EQ(
        Run({1}, {.length_multiple = multiple, .context_parallel = 2, .row_width = 24}).status,
        BATCHPLAN_ERROR_LENGTH_MULTIPLE)
        << multiple;
  }
  EXPECT_EQ(Run({1}, {.length_multiple = 0, .context_parallel = 1, .row_width = 24}).status,
            BATCHPLAN_ERROR_LENGTH_MULTIPLE);
}

TEST_P(LayoutErrorTest, RowThatTwiceTheContextParallelSizeDoesNotDivideIsAnError) {
  EXPECT_EQ(Run({1}, {.length_multiple = 4, .context_parallel = 2, .row_width = 22}).status,
            BATCHPLAN_ERROR_ROW_WIDTH);
}

TEST_P(LayoutErrorTest, ContextParallelSizeOutOfRangeIsAnError) {
  for (const uint32_t size : {0U, BATCHPLAN_MAX_CONTEXT_PARALLEL + 1U, 1U << 31, UINT32_MAX}) {
    EXPECT_EQ(Run({1}, {.length_multiple = 4, .context_parallel = size, .row_width = 24}).status,
              BATCHPLAN_ERROR_CONTEXT_PARALLEL)
        << size;
  }
}

TEST_P(LayoutErrorTest, RowTooWideForSignedOffsetsIsAnError) {
  EXPECT_EQ(
      Run({1}, {.length_multiple = 1, .context_parallel = 1, .row_width = INT32_MAX + 1U}).status,
      BATCHPLAN_ERROR_OVERFLOW);
}

TEST_P(LayoutErrorTest, ArgumentErrorsWriteNothing) {
  const LayoutResult result =
      Run({1, 2}, {.length_multiple = 3, .context_parallel = 2, .row_width = 24});
  EXPECT_THAT(result.cu_seqlens, Each(Ne(0)));
  EXPECT_THAT(result.cu_seqlens_padded, Each(Ne(0)));
  EXPECT_NE(result.max_seqlen, 0);
  EXPECT_EQ(result.error_word, BATCHPLAN_OK);
}

TEST(HostLayoutErrorTest, ErrorsAreReturnedAlsoWithoutAnErrorWordAndWithoutOutputs) {
  const std::array<uint32_t, 2> lengths = {3, 2};
  const batchplan_layout_options options = {
      .length_multiple = 1, .context_parallel = 1, .row_width = 4};
  const batchplan_packed_layout none = {};
  EXPECT_EQ(batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, lengths.data(), nullptr, 1, &options,
                                     &none, nullptr, nullptr),
            BATCHPLAN_OK);
  EXPECT_EQ(batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, lengths.data(), nullptr, 2, &options,
                                     &none, nullptr, nullptr),
            BATCHPLAN_ERROR_ROW_TOO_NARROW);
}

TEST(LayoutArgumentTest, RequiredPointersThatAreNullAreErrorsOnEveryBackend) {
  const std::array<uint32_t, 1> lengths = {1};
  const batchplan_layout_options options = {
      .length_multiple = 1, .context_parallel = 1, .row_width = 4};
  const batchplan_packed_layout none = {};
  batchplan_status error = BATCHPLAN_OK;
  for (const batchplan_backend backend : {BATCHPLAN_BACKEND_HOST, BATCHPLAN_BACKEND_CUDA}) {
    EXPECT_EQ(
        batchplan_compute_layout(backend, nullptr, nullptr, 1, &options, &none, &error, nullptr),
        BATCHPLAN_ERROR_NULL_POINTER);
    EXPECT_EQ(batchplan_compute_layout(backend, lengths.data(), nullptr, 1, nullptr, &none, &error,
                                       nullptr),
              BATCHPLAN_ERROR_NULL_POINTER);
    EXPECT_EQ(batchplan_compute_layout(backend, lengths.data(), nullptr, 1, &options, nullptr,
                                       &error, nullptr),
              BATCHPLAN_ERROR_NULL_POINTER);
  }
  EXPECT_EQ(batchplan_compute_layout(BATCHPLAN_BACKEND_CUDA, lengths.data(), nullptr, 1, &options,
                                     &none, nullptr, nullptr),
            BATCHPLAN_ERROR_NULL_POINTER);
}

TEST(LayoutArgumentTest, MoreSequencesThanSignedOffsetsCountIsAnErrorBeforeALengthIsRead) {
  const std::array<uint32_t, 1> lengths = {1};
  const batchplan_layout_options options = {
      .length_multiple = 1, .context_parallel = 1, .row_width = 4};
  const batchplan_packed_layout none = {};
  EXPECT_EQ(batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, lengths.data(), nullptr, INT32_MAX,
                                     &options, &none, nullptr, nullptr),
            BATCHPLAN_ERROR_OVERFLOW);
}

}  // namespace
}  // namespace batchplan::kernels
