// The examples of the documents that batchplan follows, and what random rows
// (move_property_test.cc) do not reach: ends of ranges, absent sequences, far memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>

#include "packed_row.h"

namespace batchplan::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

class PackTest : public EveryBackendTest {
 protected:
  // Packs rows of characters with equal widths; 'p' is padding.
  static std::string PackCharacters(const std::vector<uint32_t>& lengths,
                                    const batchplan_layout_options& options, uint32_t rank,
                                    std::initializer_list<std::string_view> rows,
                                    int32_t token_shift = 0) {
    PackedRow row(GetParam(), lengths, options, rank);
    Buffer<char> source(GetParam(), Characters(rows));
    Buffer<char> packed(GetParam(), row.cells());
    batchplan_field field = FieldOf(source.data(), packed.data(), rows.begin()->size(), 'p');
    field.token_shift = token_shift;
    EXPECT_EQ(row.Pack({.num_rows = rows.size()}, {field}), BATCHPLAN_OK);
    const std::vector<char> characters = packed.Values();
    return {characters.begin(), characters.end()};
  }
};
BATCHPLAN_EVERY_BACKEND(PackTest);

// "Sequence Packing": some padding at the end of the row.
TEST_P(PackTest, UnpackedExampleOfFourSequencesIsPackedWithoutTheirPadding) {
  EXPECT_EQ(
      PackCharacters({3, 6, 2, 3}, {.length_multiple = 1, .context_parallel = 1, .row_width = 15},
                     0, {"000ppp", "111111", "22pppp", "333ppp"}),
      "00011111122333p");
}

// "Understanding CP Load balancing": 0 1 | 2 3 | 4 5 | p p.
TEST_P(PackTest, SixTokensOnTwoRanksAreShardedZigZag) {
  const batchplan_layout_options options = {
      .length_multiple = 4, .context_parallel = 2, .row_width = 8};
  EXPECT_EQ(PackCharacters({6}, options, 0, {"012345"}), "01pp");
  EXPECT_EQ(PackCharacters({6}, options, 1, {"012345"}), "2345");
}

// "First pack every sequence to 2 * CP * TP = 4", then shard each and pack.
TEST_P(PackTest, LoadBalancingExampleOfFiveEightOneThreeOnTwoContextParallelRanks) {
  const batchplan_layout_options options = {
      .length_multiple = 4, .context_parallel = 2, .row_width = 24};
  const auto rows = {std::string_view("00000ppp"), std::string_view("11111111"),
                     std::string_view("2ppppppp"), std::string_view("333ppppp")};
  EXPECT_EQ(PackCharacters({5, 8, 1, 3}, options, 0, rows), "00pp11112p3p");
  EXPECT_EQ(PackCharacters({5, 8, 1, 3}, options, 1, rows), "000p1111pp33");
}

// "Complete Packing Example": CP_SIZE=2, TP_SIZE=1.
TEST_P(PackTest, CompletePackingExampleOfFourSamplesOnTwoContextParallelRanks) {
  const batchplan_layout_options options = {
      .length_multiple = 4, .context_parallel = 2, .row_width = 20};
  const auto rows = {std::string_view("00pppppp"), std::string_view("1111pppp"),
                     std::string_view("222222pp"), std::string_view("3ppppppp")};
  EXPECT_EQ(PackCharacters({2, 4, 6, 1}, options, 0, rows), "0p1122pp3p");
  EXPECT_EQ(PackCharacters({2, 4, 6, 1}, options, 1, rows), "0p112222pp");
  EXPECT_EQ(PackCharacters({2, 4, 6, 1}, options, BATCHPLAN_ALL_RANKS, rows),
            "0p1122pp3p0p112222pp");
}

TEST_P(PackTest, ShiftBeyondEverySequenceGivesPadding) {
  const batchplan_layout_options options = {
      .length_multiple = 4, .context_parallel = 1, .row_width = 8};
  for (const int32_t shift : {INT32_MIN, -4, 4, INT32_MAX}) {
    EXPECT_EQ(PackCharacters({3, 4}, options, 0, {"abc.", "defg"}, shift), "pppppppp") << shift;
  }
}

TEST_P(PackTest, RowWithoutSequencesIsAllPadding) {
  PackedRow row(GetParam(), {}, {.length_multiple = 4, .context_parallel = 2, .row_width = 8});
  row.row().cu_seqlens = nullptr;
  row.row().cu_seqlens_padded = nullptr;
  Buffer<float> source(GetParam(), 1);
  Buffer<float> packed(GetParam(), 4);
  Buffer<int32_t> sequence_ids(GetParam(), 4);
  EXPECT_EQ(row.Pack({}, {FieldOf(source.data(), packed.data(), 1, 9.0F),
                          IdsOf(BATCHPLAN_CONTENT_SEQUENCE_IDS, sequence_ids.data())}),
            BATCHPLAN_OK);
  EXPECT_THAT(packed.Values(), Each(9.0F));
  EXPECT_THAT(sequence_ids.Values(), Each(-1));
}

// TransformerEngine's shared memory ends at some 12,000 sequences.
TEST_P(PackTest, MoreThanAHundredThousandSequencesArePacked) {
  constexpr uint32_t kSequences = 150001;
  PackedRow row(GetParam(), std::vector<uint32_t>(kSequences, 1),
                {.length_multiple = 1, .context_parallel = 1, .row_width = kSequences});
  std::vector<int32_t> tokens(kSequences);
  std::iota(tokens.begin(), tokens.end(), 0);
  Buffer<int32_t> source(GetParam(), tokens);
  Buffer<int32_t> packed(GetParam(), kSequences);
  Buffer<int32_t> sequence_ids(GetParam(), kSequences);
  EXPECT_EQ(row.Pack({.num_rows = kSequences},
                     {FieldOf(source.data(), packed.data(), 1),
                      IdsOf(BATCHPLAN_CONTENT_SEQUENCE_IDS, sequence_ids.data())}),
            BATCHPLAN_OK);
  EXPECT_EQ(packed.Values(), tokens);
  EXPECT_EQ(sequence_ids.Values(), tokens);
}

// As in captured graphs, absent sequences have no tokens and any index.
TEST_P(PackTest, AbsentSequencesMayHaveAnyIndex) {
  PackedRow row(GetParam(), {0, 2, 0},
                {.length_multiple = 1, .context_parallel = 1, .row_width = 4});
  Buffer<char> source(GetParam(), Characters({"abc"}));
  Buffer<uint32_t> index(GetParam(), {UINT32_MAX, 0, UINT32_MAX});
  Buffer<char> packed(GetParam(), 4);
  EXPECT_EQ(row.Pack({.sequence_index = index.data(), .num_rows = 1},
                     {FieldOf(source.data(), packed.data(), 3, 'p')}),
            BATCHPLAN_OK);
  EXPECT_THAT(packed.Values(), ElementsAreArray("abpp", 4));
}

using UnpackTest = EveryBackendTest;
BATCHPLAN_EVERY_BACKEND(UnpackTest);

// Step 5 of the "Complete Packing Example" in reverse: letters in the order of the sequences.
TEST_P(UnpackTest, RowsOfAllContextParallelRanksComeBackInSequenceOrder) {
  PackedRow row(GetParam(), {2, 4, 6, 1},
                {.length_multiple = 4, .context_parallel = 2, .row_width = 20},
                BATCHPLAN_ALL_RANKS);
  Buffer<char> packed(GetParam(), Characters({"a.cfgh..m.", "b.deijkl.."}));
  Buffer<char> sequences(GetParam(), 32);
  EXPECT_EQ(row.Unpack({.num_rows = 4}, {FieldOf(packed.data(), sequences.data(), 8, '-')}),
            BATCHPLAN_OK);
  EXPECT_EQ(sequences.Values(), Characters({"ab------", "cdef----", "ghijkl--", "m-------"}));
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

// 6 GB of address space, of which a few pages are touched.
class FarTokensTest : public EveryBackendTest {
 protected:
  static constexpr uint64_t kWidth = INT32_MAX;
  static constexpr batchplan_layout_options kOptions = {
      .length_multiple = 1, .context_parallel = 1, .row_width = 3};

  void SetUp() override {
    EveryBackendTest::SetUp();
    if (IsSkipped()) return;
    far_.emplace(GetParam(), 3 * kWidth);
    index_.emplace(GetParam(), std::vector<uint32_t>{2});
    sequences_ = {.sequence_index = index_->data(), .num_rows = 3};
  }

  char* far() { return far_->data(); }

  batchplan_sequences sequences_ = {};

 private:
  std::optional<FarMemory> far_;
  std::optional<Buffer<uint32_t>> index_;
};
BATCHPLAN_EVERY_BACKEND(FarTokensTest);

TEST_P(FarTokensTest, SourceBeyondTwoToTheThirtyOneElementsIsRead) {
  std::memcpy(far() + 2 * kWidth, "xyz", 3);
  PackedRow row(GetParam(), {3}, kOptions);
  Buffer<char> packed(GetParam(), 3);
  EXPECT_EQ(row.Pack(sequences_, {FieldOf(far(), packed.data(), kWidth)}), BATCHPLAN_OK);
  EXPECT_THAT(packed.Values(), ElementsAre('x', 'y', 'z'));
}

// With ragged offsets; a padded row would be written over its whole width.
TEST_P(FarTokensTest, DestinationBeyondTwoToTheThirtyOneElementsIsWritten) {
  PackedRow row(GetParam(), {3}, kOptions);
  Buffer<char> packed(GetParam(), {'x', 'y', 'z'});
  constexpr auto kFar = static_cast<int64_t>(2 * kWidth);
  Buffer<int64_t> offsets(GetParam(), {0, 1, kFar, kFar + 3});
  sequences_.offsets = offsets.data();
  sequences_.num_tokens = 3 * kWidth;
  EXPECT_EQ(row.Unpack(sequences_, {FieldOf(packed.data(), far(), 0)}), BATCHPLAN_OK);
  EXPECT_EQ(std::string_view(far() + kFar, 3), "xyz");
}

}  // namespace
}  // namespace batchplan::kernels
