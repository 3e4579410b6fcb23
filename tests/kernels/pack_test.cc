// The worked examples of the documents that batchplan follows, and each thing that pack can do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <numeric>

#include "packed_row.h"

namespace batchplan::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

class PackTest : public EveryBackendTest {
 protected:
  // Packs rows of characters, all of one width, with 'p' for padding.
  static std::string PackCharacters(const std::vector<uint32_t>& lengths,
                                    const batchplan_layout_options& options, uint32_t rank,
                                    std::initializer_list<std::string_view> rows,
                                    int32_t token_shift = 0) {
    PackedRow row(GetParam(), lengths, options, rank);
    Buffer<char> source(GetParam(), Characters(rows));
    Buffer<char> packed(GetParam(), row.slots());
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

TEST_P(PackTest, ContiguousShardsAreHalvesOfEverySequence) {
  const batchplan_layout_options options = {.length_multiple = 2,
                                            .context_parallel = 2,
                                            .row_width = 10,
                                            .sharding = BATCHPLAN_SHARDING_CONTIGUOUS};
  EXPECT_EQ(PackCharacters({3, 4}, options, 0, {"abc.", "defg"}), "abdep");
  EXPECT_EQ(PackCharacters({3, 4}, options, 1, {"abc.", "defg"}), "cpfgp");
}

TEST_P(PackTest, SequenceWidthGivesThePaddedLayout) {
  const batchplan_layout_options options = {
      .length_multiple = 1, .context_parallel = 1, .row_width = 12, .sequence_width = 4};
  EXPECT_EQ(PackCharacters({2, 0, 4}, options, 0, {"ab...", ".....", "cdef."}), "abppppppcdef");
}

TEST_P(PackTest, TokensBehindASequenceAreNotRead) {
  EXPECT_EQ(PackCharacters({1, 0}, {.length_multiple = 2, .context_parallel = 1, .row_width = 4}, 0,
                           {"a!!", "!!!"}),
            "appp");
}

TEST_P(PackTest, ShiftOfOneGivesNextTokenLabels) {
  const batchplan_layout_options options = {
      .length_multiple = 4, .context_parallel = 1, .row_width = 16};
  EXPECT_EQ(PackCharacters({3, 1, 4}, options, 0, {"abc.", "d...", "efgh"}, 1), "bcppppppfghppppp");
}

TEST_P(PackTest, ShiftCrossesTheBoundariesOfChunks) {
  const batchplan_layout_options options = {
      .length_multiple = 4, .context_parallel = 2, .row_width = 8};
  EXPECT_EQ(PackCharacters({8}, options, 0, {"01234567"}, 1), "127p");
  EXPECT_EQ(PackCharacters({8}, options, 1, {"01234567"}, 1), "3456");
}

TEST_P(PackTest, NegativeShiftGivesThePreviousToken) {
  const batchplan_layout_options options = {
      .length_multiple = 4, .context_parallel = 1, .row_width = 8};
  EXPECT_EQ(PackCharacters({3, 4}, options, 0, {"abc.", "defg"}, -1), "pabppdef");
  EXPECT_EQ(PackCharacters({3, 4}, options, 0, {"abc.", "defg"}, -4), "pppppppp");
  EXPECT_EQ(PackCharacters({3, 4}, options, 0, {"abc.", "defg"}, INT32_MIN), "pppppppp");
  EXPECT_EQ(PackCharacters({3, 4}, options, 0, {"abc.", "defg"}, INT32_MAX), "pppppppp");
}

TEST_P(PackTest, SequenceIndexGathersRowsInThePlansOrder) {
  PackedRow row(GetParam(), {2, 1, 3},
                {.length_multiple = 1, .context_parallel = 1, .row_width = 6});
  Buffer<char> source(GetParam(), Characters({"a..", "bcd", "...", "ef."}));
  Buffer<uint32_t> index(GetParam(), {3, 0, 1});
  Buffer<char> packed(GetParam(), 6);
  EXPECT_EQ(row.Pack({.sequence_index = index.data(), .num_rows = 4},
                     {FieldOf(source.data(), packed.data(), 3)}),
            BATCHPLAN_OK);
  EXPECT_THAT(packed.Values(), ElementsAreArray("efabcd", 6));
}

TEST_P(PackTest, RaggedRowsAreReadFromTheirOffsets) {
  PackedRow row(GetParam(), {2, 3}, {.length_multiple = 4, .context_parallel = 2, .row_width = 8},
                1);
  Buffer<char> source(GetParam(), Characters({"xabcyde"}));
  Buffer<int64_t> offsets(GetParam(), {0, 1, 4, 5, 7});
  Buffer<uint32_t> index(GetParam(), {3, 1});
  Buffer<char> packed(GetParam(), 4);
  EXPECT_EQ(row.Pack({.sequence_index = index.data(),
                      .offsets = offsets.data(),
                      .num_rows = 4,
                      .num_tokens = 7},
                     {FieldOf(source.data(), packed.data(), 0, 'p')}),
            BATCHPLAN_OK);
  EXPECT_THAT(packed.Values(), ElementsAreArray("epbc", 4));
}

TEST_P(PackTest, FieldsOfEveryKindMoveTogether) {
  PackedRow row(GetParam(), {2, 1}, {.length_multiple = 2, .context_parallel = 1, .row_width = 6});
  Buffer<int64_t> tokens(GetParam(), {10, 11, 99, 20, 99, 99});
  Buffer<float> advantages(GetParam(), {0.5F, -2.0F});
  Buffer<uint8_t> mask(GetParam(), {1, 0, 1, 1});
  Buffer<int16_t> hidden(GetParam(), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  Buffer<int64_t> packed_tokens(GetParam(), 6);
  Buffer<int64_t> labels(GetParam(), 6);
  Buffer<float> packed_advantages(GetParam(), 6);
  Buffer<uint8_t> packed_mask(GetParam(), 6);
  Buffer<int16_t> packed_hidden(GetParam(), 18);
  Buffer<int32_t> position_ids(GetParam(), 6);
  Buffer<int64_t> wide_position_ids(GetParam(), 6);
  Buffer<int32_t> sequence_ids(GetParam(), 6);

  batchplan_field label_field = FieldOf(tokens.data(), labels.data(), 3, int64_t{-100});
  label_field.token_shift = 1;
  batchplan_field advantage_field = FieldOf(advantages.data(), packed_advantages.data(), 0);
  advantage_field.content = BATCHPLAN_CONTENT_PER_SEQUENCE;
  const std::vector<batchplan_field> fields = {
      FieldOf(tokens.data(), packed_tokens.data(), 3, int64_t{7}),
      label_field,
      advantage_field,
      FieldOf(mask.data(), packed_mask.data(), 2),
      FieldOf(hidden.data(), packed_hidden.data(), 2, int16_t{-1}, 3),
      IdsOf(BATCHPLAN_CONTENT_POSITION_IDS, position_ids.data()),
      IdsOf(BATCHPLAN_CONTENT_POSITION_IDS, wide_position_ids.data()),
      IdsOf(BATCHPLAN_CONTENT_SEQUENCE_IDS, sequence_ids.data())};
  EXPECT_EQ(row.Pack({.num_rows = 2}, fields), BATCHPLAN_OK);

  EXPECT_THAT(packed_tokens.Values(), ElementsAre(10, 11, 20, 7, 7, 7));
  EXPECT_THAT(labels.Values(), ElementsAre(11, -100, -100, -100, -100, -100));
  EXPECT_THAT(packed_advantages.Values(), ElementsAre(0.5F, 0.5F, -2.0F, 0, 0, 0));
  EXPECT_THAT(packed_mask.Values(), ElementsAre(1, 0, 1, 0, 0, 0));
  EXPECT_THAT(packed_hidden.Values(),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(position_ids.Values(), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(wide_position_ids.Values(), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(sequence_ids.Values(), ElementsAre(0, 0, 1, 1, -1, -1));
}

TEST_P(PackTest, IdsNeedNoSequences) {
  PackedRow row(GetParam(), {2, 4}, {.length_multiple = 4, .context_parallel = 2, .row_width = 8},
                1);
  Buffer<int32_t> position_ids(GetParam(), 4);
  const batchplan_field field = IdsOf(BATCHPLAN_CONTENT_POSITION_IDS, position_ids.data());
  EXPECT_EQ(row.Pack({}, {field}), BATCHPLAN_OK);
  EXPECT_THAT(position_ids.Values(), ElementsAre(1, 2, 1, 2));
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

TEST_P(PackTest, RowOfNoWidthNeedsNoTensors) {
  PackedRow row(GetParam(), {0, 0}, {.length_multiple = 4, .context_parallel = 2, .row_width = 0});
  const batchplan_field field = {.element_size = 4, .elements_per_token = 1, .width = 8};
  EXPECT_EQ(row.Pack({.num_rows = 2}, {field}), BATCHPLAN_OK);
  EXPECT_EQ(row.Pack({.num_rows = 2}, {}), BATCHPLAN_OK);
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

// What captured graphs do: sequences that are absent have no tokens and any index.
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

// 6 GB of address space, of which a few pages are touched. A device has no such thing, but its
// kernels do where they are emulated.
class FarTokensTest : public testing::TestWithParam<batchplan_backend> {
 protected:
  static constexpr uint64_t kWidth = INT32_MAX;
  static constexpr batchplan_layout_options kOptions = {
      .length_multiple = 1, .context_parallel = 1, .row_width = 3};

  void SetUp() override {
    void* const space = mmap(nullptr, 3 * kWidth, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(space, MAP_FAILED);
    far_ = static_cast<char*>(space);
  }
  void TearDown() override {
    if (far_ != nullptr) munmap(far_, 3 * kWidth);
  }

  static constexpr std::array<uint32_t, 1> kIndex = {2};
  static constexpr batchplan_sequences kSequences = {.sequence_index = kIndex.data(),
                                                     .num_rows = 3};
  char* far_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(
    HostMemory, FarTokensTest,
    testing::ValuesIn(kEmulated ? std::vector<batchplan_backend>{BATCHPLAN_BACKEND_HOST,
                                                                 BATCHPLAN_BACKEND_CUDA}
                                : std::vector<batchplan_backend>{BATCHPLAN_BACKEND_HOST}),
    BackendName);

TEST_P(FarTokensTest, SourceBeyondTwoToTheThirtyOneElementsIsRead) {
  std::memcpy(far_ + 2 * kWidth, "xyz", 3);
  PackedRow row(GetParam(), {3}, kOptions);
  std::array<char, 3> packed = {};
  EXPECT_EQ(row.Pack(kSequences, {FieldOf(far_, packed.data(), kWidth)}), BATCHPLAN_OK);
  EXPECT_THAT(packed, ElementsAre('x', 'y', 'z'));
}

// By ragged offsets: a padded row would be written over its whole width.
TEST_P(FarTokensTest, DestinationBeyondTwoToTheThirtyOneElementsIsWritten) {
  PackedRow row(GetParam(), {3}, kOptions);
  const std::array<char, 3> packed = {'x', 'y', 'z'};
  constexpr auto kFar = static_cast<int64_t>(2 * kWidth);
  const std::array<int64_t, 4> offsets = {0, 1, kFar, kFar + 3};
  batchplan_sequences sequences = kSequences;
  sequences.offsets = offsets.data();
  sequences.num_tokens = 3 * kWidth;
  EXPECT_EQ(row.Unpack(sequences, {FieldOf(packed.data(), far_, 0)}), BATCHPLAN_OK);
  EXPECT_EQ(std::string_view(far_ + kFar, 3), "xyz");
}

}  // namespace
}  // namespace batchplan::kernels
