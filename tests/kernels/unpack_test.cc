// Each thing that unpack can do, on rows small enough to read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "packed_row.h"

namespace batchplan::kernels {
namespace {

using ::testing::ElementsAre;

class UnpackTest : public EveryBackendTest {
 protected:
  // Unpacks a row of characters into rows of `width`, with '-' for what has no token.
  static std::string UnpackCharacters(const std::vector<uint32_t>& lengths,
                                      const batchplan_layout_options& options, uint32_t rank,
                                      std::string_view packed, uint64_t width,
                                      int32_t token_shift = 0) {
    PackedRow row(GetParam(), lengths, options, rank);
    Buffer<char> source(GetParam(), Characters({packed}));
    Buffer<char> sequences(GetParam(), lengths.size() * width);
    batchplan_field field = FieldOf(source.data(), sequences.data(), width, '-');
    field.token_shift = token_shift;
    EXPECT_EQ(row.Unpack({.num_rows = lengths.size()}, {field}), BATCHPLAN_OK);
    const std::vector<char> characters = sequences.Values();
    return {characters.begin(), characters.end()};
  }
};
BATCHPLAN_EVERY_BACKEND(UnpackTest);

constexpr batchplan_layout_options kTwoRanks = {
    .length_multiple = 4, .context_parallel = 2, .row_width = 20};

TEST_P(UnpackTest, RowComesBackAsPaddedSequences) {
  EXPECT_EQ(
      UnpackCharacters({3, 1, 2}, {.length_multiple = 2, .context_parallel = 1, .row_width = 10}, 0,
                       "abc.d.ef..", 4),
      "abc-d---ef--");
}

// Step 5 of the "Complete Packing Example", backwards: letters in the order of the sequences.
TEST_P(UnpackTest, RowsOfAllContextParallelRanksComeBackInSequenceOrder) {
  EXPECT_EQ(UnpackCharacters({2, 4, 6, 1}, kTwoRanks, BATCHPLAN_ALL_RANKS,
                             "a.cfgh..m."
                             "b.deijkl..",
                             8),
            "ab------cdef----ghijkl--m-------");
}

TEST_P(UnpackTest, RowOfOneContextParallelRankLeavesTheOthersTokensToThePadValue) {
  EXPECT_EQ(UnpackCharacters({2, 4, 6, 1}, kTwoRanks, 0, "a.cfgh..m.", 6),
            "a-----c--f--gh----m-----");
  EXPECT_EQ(UnpackCharacters({2, 4, 6, 1}, kTwoRanks, 1, "b.deijkl..", 6),
            "-b-----de-----ijkl------");
}

TEST_P(UnpackTest, ContiguousShardsComeBackInSequenceOrder) {
  EXPECT_EQ(UnpackCharacters({3, 4},
                             {.length_multiple = 2,
                              .context_parallel = 2,
                              .row_width = 10,
                              .sharding = BATCHPLAN_SHARDING_CONTIGUOUS},
                             BATCHPLAN_ALL_RANKS, "abde.c.fg.", 4),
            "abc-defg");
}

// A log-probability stands where its token was predicted, one place before the token.
TEST_P(UnpackTest, ShiftOfOnePutsLogProbabilitiesWhereTheirTokensStand) {
  EXPECT_EQ(
      UnpackCharacters({4, 1, 2}, {.length_multiple = 1, .context_parallel = 1, .row_width = 7}, 0,
                       "bcd.~f~", 4, 1),
      "-bcd-----f--");
}

TEST_P(UnpackTest, NegativeShiftIsTheOtherWayRound) {
  EXPECT_EQ(UnpackCharacters({4, 2}, {.length_multiple = 1, .context_parallel = 1, .row_width = 6},
                             0, "~abc~e", 4, -1),
            "abc-e---");
}

TEST_P(UnpackTest, SequenceIndexScattersAndLeavesOtherRowsAlone) {
  PackedRow row(GetParam(), {2, 0, 1},
                {.length_multiple = 1, .context_parallel = 1, .row_width = 3});
  Buffer<int32_t> packed(GetParam(), {1, 2, 3});
  Buffer<uint32_t> index(GetParam(), {3, 0, 1});
  Buffer<int32_t> sequences(GetParam(), std::vector<int32_t>(8, 77));
  EXPECT_EQ(row.Unpack({.sequence_index = index.data(), .num_rows = 4},
                       {FieldOf(packed.data(), sequences.data(), 2)}),
            BATCHPLAN_OK);
  EXPECT_THAT(sequences.Values(), ElementsAre(0, 0, 3, 0, 77, 77, 1, 2));
}

TEST_P(UnpackTest, RaggedRowsAreWrittenUpToTheirSequencesEnd) {
  PackedRow row(GetParam(), {2, 1}, {.length_multiple = 4, .context_parallel = 2, .row_width = 8},
                BATCHPLAN_ALL_RANKS);
  Buffer<int16_t> packed(GetParam(), {1, 0, 3, 0, 2, 0, 0, 0});
  Buffer<uint32_t> index(GetParam(), {2, 0});
  Buffer<int64_t> offsets(GetParam(), {1, 3, 3, 5});
  Buffer<int16_t> sequences(GetParam(), std::vector<int16_t>(6, 9));
  EXPECT_EQ(row.Unpack({.sequence_index = index.data(),
                        .offsets = offsets.data(),
                        .num_rows = 3,
                        .num_tokens = 6},
                       {FieldOf(packed.data(), sequences.data(), 0)}),
            BATCHPLAN_OK);
  EXPECT_THAT(sequences.Values(), ElementsAre(9, 3, 9, 1, 2, 9));
}

TEST_P(UnpackTest, AbsentSequencesWithAnIndexBeyondTheRowsWriteNothing) {
  PackedRow row(GetParam(), {1, 0}, {.length_multiple = 1, .context_parallel = 1, .row_width = 4});
  Buffer<char> packed(GetParam(), Characters({"abcd"}));
  Buffer<uint32_t> index(GetParam(), {1, UINT32_MAX});
  Buffer<char> sequences(GetParam(), Characters({"....", "...."}));
  EXPECT_EQ(row.Unpack({.sequence_index = index.data(), .num_rows = 2},
                       {FieldOf(packed.data(), sequences.data(), 4, '-')}),
            BATCHPLAN_OK);
  EXPECT_EQ(sequences.Values(), Characters({"....", "a---"}));
}

TEST_P(UnpackTest, PositionsAreNotUnpacked) {
  PackedRow row(GetParam(), {1}, {.length_multiple = 1, .context_parallel = 1, .row_width = 1});
  Buffer<int32_t> ids(GetParam(), 1);
  EXPECT_EQ(row.Unpack({.num_rows = 1}, {IdsOf(BATCHPLAN_CONTENT_POSITION_IDS, ids.data())}),
            BATCHPLAN_ERROR_CONTENT);
}

TEST_P(UnpackTest, NoSequencesAndNoWidthAreNothingToDo) {
  PackedRow none(GetParam(), {}, {.length_multiple = 1, .context_parallel = 1, .row_width = 4});
  const batchplan_field field = {.element_size = 4, .elements_per_token = 1, .width = 3};
  EXPECT_EQ(none.Unpack({}, {field}), BATCHPLAN_OK);
  PackedRow empty(GetParam(), {0}, {.length_multiple = 1, .context_parallel = 1, .row_width = 4});
  Buffer<float> packed(GetParam(), 4);
  Buffer<float> sequences(GetParam(), 1);
  EXPECT_EQ(empty.Unpack({.num_rows = 1}, {FieldOf(packed.data(), sequences.data(), 0)}),
            BATCHPLAN_OK);
}

}  // namespace
}  // namespace batchplan::kernels
