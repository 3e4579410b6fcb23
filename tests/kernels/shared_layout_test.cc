// Layouts of sequences that share prefixes: the documented example, edge cases, random forests
// compared with paths followed token by token, and errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "forest.h"
#include "layout_runner.h"
#include "random_cases.h"

namespace batchplan::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using SharedLayoutTest = EveryBackendLayoutTest;
BATCHPLAN_EVERY_BACKEND(SharedLayoutTest);

batchplan_layout_options RowOf(uint32_t width) {
  return {.length_multiple = 8, .context_parallel = 1, .row_width = width};
}

TEST_P(SharedLayoutTest, DocumentedExampleHasItsArrays) {
  const LayoutResult result = RunShared({5, 7, 4}, {0, 3, 2}, RowOf(12));
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_THAT(result.cu_seqlens, ElementsAre(0, 5, 12, 16));
  EXPECT_THAT(result.cu_new, ElementsAre(0, 5, 9, 11));
  EXPECT_THAT(result.cu_seqlens_padded, ElementsAre(0, 5, 9, 11));
  EXPECT_THAT(result.cu_seqlens_padded_per_rank, ElementsAre(0, 5, 9, 11));
  EXPECT_THAT(result.subtree_end, ElementsAre(11, 11, 9, 5, 5, 9, 9, 9, 9, 11, 11, 12));
  EXPECT_THAT(result.least_shared, ElementsAre(0, 0, 2));
  EXPECT_EQ(result.max_seqlen, 7);
  EXPECT_EQ(result.max_seqlen_padded, 5);
}

TEST_P(SharedLayoutTest, SequencesThatShareNothingAreSubtreesOfTheirOwnEndToEnd) {
  const LayoutResult result = RunShared({2, 0, 3}, {0, 0, 0}, RowOf(7));
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_THAT(result.cu_new, ElementsAre(0, 2, 2, 5));
  EXPECT_THAT(result.subtree_end, ElementsAre(2, 2, 5, 5, 5, 7, 7));
}

TEST_P(SharedLayoutTest, RowWithoutSequencesIsTail) {
  EXPECT_THAT(RunShared({}, {}, RowOf(3)).subtree_end, ElementsAre(3, 3, 3));
  const LayoutResult empty = RunShared({}, {}, RowOf(0));
  EXPECT_EQ(empty.status, BATCHPLAN_OK);
  EXPECT_THAT(empty.subtree_end, IsEmpty());
  EXPECT_THAT(empty.cu_new, ElementsAre(0));
}

// Whether the token of `query` attends to the token of `cell`: they are on one path, or the same.
bool IsSeenBy(const NaiveForest& naive, int32_t cell, int32_t query) {
  const std::vector<int32_t>& path = naive.paths[naive.sequence_ids[query]];
  const auto end = path.begin() + naive.position_ids[query] + 1;
  return std::find(path.begin(), end, cell) != end;
}

void ExpectLayoutOf(const Forest& forest, uint32_t tail, const LayoutResult& result) {
  ASSERT_EQ(result.status, BATCHPLAN_OK);
  const NaiveForest naive(forest);
  const auto taken = static_cast<int32_t>(naive.sequence_ids.size());
  const size_t count = forest.lengths.size();
  std::vector<int32_t> cu_seqlens = {0};
  std::vector<int32_t> cu_new = {0};
  std::vector<int32_t> least_shared;
  int32_t most_new = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto new_tokens = static_cast<int32_t>(forest.lengths[i] - forest.shared[i]);
    most_new = std::max(most_new, new_tokens);
    cu_seqlens.push_back(cu_seqlens.back() + static_cast<int32_t>(forest.lengths[i]));
    cu_new.push_back(cu_new.back() + new_tokens);
    size_t block = 1;
    while ((i + 1) % (2 * block) == 0) block *= 2;
    const auto end = forest.shared.begin() + static_cast<ptrdiff_t>(i) + 1;
    least_shared.push_back(
        static_cast<int32_t>(*std::min_element(end - static_cast<ptrdiff_t>(block), end)));
  }
  EXPECT_EQ(result.cu_seqlens, cu_seqlens);
  EXPECT_EQ(result.cu_new, cu_new);
  EXPECT_EQ(result.cu_seqlens_padded, cu_new);
  EXPECT_EQ(result.least_shared, least_shared);
  EXPECT_EQ(result.max_seqlen, static_cast<int32_t>(forest.longest()));
  EXPECT_EQ(result.max_seqlen_padded, most_new);

  ASSERT_EQ(result.subtree_end.size(), static_cast<size_t>(taken) + tail);
  for (int32_t cell = 0; cell < taken; ++cell) {
    for (int32_t query = cell; query < taken; ++query) {
      ASSERT_EQ(query < result.subtree_end[cell], IsSeenBy(naive, cell, query))
          << "token " << cell << " by token " << query;
    }
  }
  for (uint32_t i = 0; i < tail; ++i) {
    EXPECT_EQ(result.subtree_end[taken + i], taken + static_cast<int32_t>(tail));
  }
}

TEST_P(SharedLayoutTest, EdgesAreLaidOutAsTheirPathsSay) {
  std::mt19937 random(Seed(11));
  for (const Forest& forest : EdgeForests(random)) {
    SCOPED_TRACE(testing::PrintToString(forest));
    const uint32_t tail = forest.lengths.size() % 3;
    ExpectLayoutOf(forest, tail,
                   RunShared(forest.lengths, forest.shared, RowOf(forest.new_tokens() + tail)));
  }
}

TEST_P(SharedLayoutTest, RandomForestsAreLaidOutAsTheirPathsSay) {
  std::mt19937 random(Seed(20261126));
  for (uint64_t round = 0; round < Cases(200); ++round) {
    const Forest forest = RandomForest(random, round % 4 == 0 ? 90 : 12, 20);
    SCOPED_TRACE(testing::PrintToString(forest));
    const auto tail = static_cast<uint32_t>(random() % 4);
    const uint32_t tokens = forest.new_tokens();
    ExpectLayoutOf(forest, tail, RunShared(forest.lengths, forest.shared, RowOf(tokens + tail)));
    if (tokens == 0) continue;
    EXPECT_EQ(RunShared(forest.lengths, forest.shared, RowOf(tokens - 1)).status,
              BATCHPLAN_ERROR_ROW_TOO_NARROW);
  }
}

// More than a tile of the scan, and chains as long.
TEST_P(SharedLayoutTest, ManySequencesHaveTheirPlaces) {
  const Forest chain = Chain(5000, 1);
  const LayoutResult result = RunShared(chain.lengths, chain.shared, RowOf(5000));
  EXPECT_EQ(result.status, BATCHPLAN_OK);
  EXPECT_EQ(result.cu_new.back(), 5000);
  EXPECT_THAT(result.subtree_end, Each(5000));
}

TEST_P(SharedLayoutTest, TokensThatCanNotBeSharedAreErrors) {
  const auto status_of = [&](const std::vector<uint32_t>& lengths,
                             const std::vector<uint32_t>& shared) {
    const LayoutResult result = RunShared(lengths, shared, RowOf(20));
    EXPECT_EQ(result.error_word, result.status);
    EXPECT_THAT(result.cu_new, Each(0));
    EXPECT_THAT(result.cu_seqlens, Each(0));
    EXPECT_THAT(result.least_shared, Each(0));
    EXPECT_THAT(result.subtree_end, Each(20));
    EXPECT_EQ(result.max_seqlen, 0);
    return result.status;
  };
  EXPECT_EQ(status_of({5, 7}, {1, 3}), BATCHPLAN_ERROR_SHARED_TOKENS);
  EXPECT_EQ(status_of({5, 7}, {0, 6}), BATCHPLAN_ERROR_SHARED_TOKENS);
  EXPECT_EQ(status_of({5, 3}, {0, 4}), BATCHPLAN_ERROR_SHARED_TOKENS);
  EXPECT_EQ(status_of({5, 3}, {0, UINT32_MAX}), BATCHPLAN_ERROR_SHARED_TOKENS);
  EXPECT_EQ(status_of({21, 21}, {0, 0}), BATCHPLAN_ERROR_ROW_TOO_NARROW);
  // The row is short, but not what is unpacked from it.
  EXPECT_EQ(status_of({INT32_MAX, INT32_MAX}, {0, INT32_MAX}), BATCHPLAN_ERROR_OVERFLOW);
}

TEST_P(SharedLayoutTest, ContextParallelRanksAndPaddedRowsDoNotShare) {
  for (const batchplan_sharding sharding :
       {BATCHPLAN_SHARDING_ZIGZAG, BATCHPLAN_SHARDING_CONTIGUOUS}) {
    EXPECT_EQ(
        RunShared(
            {5, 7}, {0, 3},
            {.length_multiple = 4, .context_parallel = 2, .row_width = 12, .sharding = sharding})
            .status,
        BATCHPLAN_ERROR_SHARDING);
  }
  EXPECT_EQ(
      RunShared({5, 7}, {0, 3},
                {.length_multiple = 1, .context_parallel = 1, .row_width = 14, .sequence_width = 7})
          .status,
      BATCHPLAN_ERROR_SEQUENCE_WIDTH);
}

TEST(SharedLayoutArgumentTest, SubtreesNeedTheArraysThatTheyAreFoundBy) {
  const uint32_t lengths[] = {5, 7};
  const uint32_t shared[] = {0, 3};
  int32_t cu_seqlens[3];
  int32_t cu_seqlens_padded[3];
  int32_t least_shared[2];
  int32_t subtree_end[16];
  const batchplan_layout_options options = RowOf(16);
  const auto status_of = [&](const batchplan_packed_layout& layout, const uint32_t* shares) {
    return batchplan_compute_layout(BATCHPLAN_BACKEND_HOST, lengths, shares, 2, &options, &layout,
                                    nullptr, nullptr);
  };
  batchplan_packed_layout layout = {.cu_seqlens = cu_seqlens,
                                    .cu_seqlens_padded = cu_seqlens_padded,
                                    .least_shared = least_shared,
                                    .subtree_end = subtree_end};
  EXPECT_EQ(status_of(layout, shared), BATCHPLAN_OK);
  layout.least_shared = nullptr;
  EXPECT_EQ(status_of(layout, shared), BATCHPLAN_ERROR_NULL_POINTER);
  // Padding belongs to its sequence.
  EXPECT_EQ(status_of(layout, nullptr), BATCHPLAN_OK);
  EXPECT_THAT(subtree_end, ElementsAre(8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16));
  layout.cu_seqlens_padded = nullptr;
  EXPECT_EQ(status_of(layout, nullptr), BATCHPLAN_ERROR_NULL_POINTER);
  layout.cu_seqlens_padded = cu_seqlens_padded;
  layout.cu_seqlens = nullptr;
  EXPECT_EQ(status_of(layout, nullptr), BATCHPLAN_ERROR_NULL_POINTER);
}

}  // namespace
}  // namespace batchplan::kernels
