// Errors in calls to pack or unpack, found before or while they run; and that nothing is written
// out of bounds, whatever the arrays hold. Includes the known mistakes of packing code.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <random>

#include "packed_row.h"
#include "random_cases.h"

namespace batchplan::kernels {
namespace {

using ::testing::Each;

constexpr batchplan_layout_options kOneRank = {
    .length_multiple = 1, .context_parallel = 1, .row_width = 8};
constexpr batchplan_layout_options kTwoRanks = {
    .length_multiple = 4, .context_parallel = 2, .row_width = 16};

// A row of one to three sequences, with a field of bytes that is packed from rows of 8.
class MoveErrorTest : public EveryBackendTest {
 protected:
  void SetUp() override {
    EveryBackendTest::SetUp();
    if (IsSkipped()) return;
    source_.emplace(GetParam(), std::vector<char>(64, 's'));
    destination_.emplace(GetParam(), 64);
  }

  batchplan_field Field() { return FieldOf(source_->data(), destination_->data(), 8, 'p'); }

  // Expects the error in both directions.
  static void ExpectBoth(PackedRow& row, const batchplan_sequences& sequences,
                         const std::vector<batchplan_field>& fields, batchplan_status expected) {
    EXPECT_EQ(row.Pack(sequences, fields), expected);
    EXPECT_EQ(row.Unpack(sequences, fields), expected);
  }

  void ExpectFieldError(const batchplan_field& field, batchplan_status expected) {
    PackedRow row(GetParam(), {3, 5}, kOneRank);
    ExpectBoth(row, {.num_rows = 2}, {field}, expected);
    EXPECT_THAT(destination_->Values(), Each(char{0x5e}));
  }

  void ExpectLayoutError(const std::vector<int32_t>& cu_seqlens,
                         const std::vector<int32_t>& cu_seqlens_padded,
                         const batchplan_layout_options& options) {
    PackedRow row(GetParam(), std::vector<uint32_t>(cu_seqlens.size() - 1, 1), options);
    row.SetOffsets(cu_seqlens, cu_seqlens_padded);
    ExpectBoth(row, {.num_rows = 3}, {Field()}, BATCHPLAN_ERROR_LAYOUT);
    destination_->Values();  // the guards
  }

  std::optional<Buffer<char>> source_;
  std::optional<Buffer<char>> destination_;
};
BATCHPLAN_EVERY_BACKEND(MoveErrorTest);

TEST_P(MoveErrorTest, ContentThatDoesNotExistIsRefused) {
  batchplan_field field = Field();
  field.content = 4;
  ExpectFieldError(field, BATCHPLAN_ERROR_CONTENT);
  field.content = -1;
  ExpectFieldError(field, BATCHPLAN_ERROR_CONTENT);
}

TEST_P(MoveErrorTest, ElementSizesThatAreNoPowerOfTwoUpToSixteenAreRefused) {
  batchplan_field field = Field();
  for (const uint32_t size : {0U, 3U, 12U, 32U, UINT32_MAX}) {
    field.element_size = size;
    ExpectFieldError(field, BATCHPLAN_ERROR_ELEMENT_SIZE);
  }
}

TEST_P(MoveErrorTest, IdsOfTwoBytesAreRefused) {
  PackedRow row(GetParam(), {3, 5}, kOneRank);
  Buffer<int16_t> ids(GetParam(), 8);
  EXPECT_EQ(row.Pack({}, {IdsOf(BATCHPLAN_CONTENT_SEQUENCE_IDS, ids.data())}),
            BATCHPLAN_ERROR_ELEMENT_SIZE);
}

TEST_P(MoveErrorTest, TokensOfNothingAndTokensOfMoreThanAGigabyteAreRefused) {
  batchplan_field field = Field();
  for (const uint64_t elements :
       {uint64_t{0}, uint64_t{BATCHPLAN_MAX_TOKEN_BYTES} + 1, UINT64_MAX}) {
    field.elements_per_token = elements;
    ExpectFieldError(field, BATCHPLAN_ERROR_TOKEN_SIZE);
  }
}

TEST_P(MoveErrorTest, IdsOfSeveralElementsATokenAreRefused) {
  PackedRow row(GetParam(), {3, 5}, kOneRank);
  Buffer<int32_t> ids(GetParam(), 16);
  batchplan_field field = IdsOf(BATCHPLAN_CONTENT_POSITION_IDS, ids.data());
  field.elements_per_token = 2;
  EXPECT_EQ(row.Pack({}, {field}), BATCHPLAN_ERROR_TOKEN_SIZE);
}

TEST_P(MoveErrorTest, WidthAboveThirtyOneBitsIsRefused) {
  batchplan_field field = Field();
  for (const uint64_t width : {uint64_t{1} << 31, UINT64_MAX}) {
    field.width = width;
    ExpectFieldError(field, BATCHPLAN_ERROR_WIDTH);
  }
}

TEST_P(MoveErrorTest, MoreThanAGridCanWriteIsRefused) {
  if (GetParam() == BATCHPLAN_BACKEND_HOST) GTEST_SKIP() << "the host has no grid";
  PackedRow row(GetParam(), {3, 5}, kOneRank);
  // The error is found before anything is read.
  row.row().num_sequences = 1U << 20;
  batchplan_field field = Field();
  field.width = INT32_MAX;
  EXPECT_EQ(row.Unpack({.num_rows = 1U << 20}, {field}), BATCHPLAN_ERROR_OVERFLOW);
  field.elements_per_token = BATCHPLAN_MAX_TOKEN_BYTES;
  EXPECT_EQ(row.Unpack({.num_rows = 1U << 20}, {field}), BATCHPLAN_ERROR_OVERFLOW);
}

TEST_P(MoveErrorTest, PointersThatAreNotAlignedToTheirElementsAreRefused) {
  batchplan_field field = Field();
  field.element_size = 4;
  field.width = 4;
  batchplan_field misaligned = field;
  misaligned.source = source_->data() + 2;
  ExpectFieldError(misaligned, BATCHPLAN_ERROR_MISALIGNED);
  misaligned = field;
  misaligned.destination = destination_->data() + 1;
  ExpectFieldError(misaligned, BATCHPLAN_ERROR_MISALIGNED);
}

TEST_P(MoveErrorTest, MissingPointersAreRefused) {
  batchplan_field field = Field();
  field.source = nullptr;
  ExpectFieldError(field, BATCHPLAN_ERROR_NULL_POINTER);
  field = Field();
  field.destination = nullptr;
  ExpectFieldError(field, BATCHPLAN_ERROR_NULL_POINTER);

  PackedRow row(GetParam(), {3, 5}, kOneRank);
  field = Field();
  batchplan_status error_word = BATCHPLAN_OK;
  const batchplan_sequences sequences = {.num_rows = 2};
  for (const auto move : {batchplan_pack, batchplan_unpack}) {
    EXPECT_EQ(move(GetParam(), nullptr, &sequences, &field, 1, &error_word, nullptr),
              BATCHPLAN_ERROR_NULL_POINTER);
    EXPECT_EQ(move(GetParam(), &row.row(), nullptr, &field, 1, &error_word, nullptr),
              BATCHPLAN_ERROR_NULL_POINTER);
    EXPECT_EQ(move(GetParam(), &row.row(), &sequences, nullptr, 1, &error_word, nullptr),
              BATCHPLAN_ERROR_NULL_POINTER);
  }
  row.row().cu_seqlens_padded = nullptr;
  ExpectBoth(row, sequences, {field}, BATCHPLAN_ERROR_NULL_POINTER);
}

TEST_P(MoveErrorTest, ThirtyTwoFieldsMoveAndThirtyThreeAreRefused) {
  PackedRow row(GetParam(), {2}, {.length_multiple = 1, .context_parallel = 1, .row_width = 2});
  std::vector<batchplan_field> fields;
  for (int i = 0; i < BATCHPLAN_MAX_FIELDS; ++i) {
    fields.push_back(FieldOf(source_->data(), destination_->data() + 2 * i, 2, 'p'));
  }
  EXPECT_EQ(row.Pack({.num_rows = 1}, fields), BATCHPLAN_OK);
  EXPECT_THAT(destination_->Values(), Each('s'));
  fields.push_back(fields.back());
  ExpectBoth(row, {.num_rows = 1}, fields, BATCHPLAN_ERROR_FIELD_COUNT);
}

TEST_P(MoveErrorTest, RankOutsideOfTheContextParallelRanksIsRefused) {
  PackedRow row(GetParam(), {3, 5}, kTwoRanks);
  for (const uint32_t rank : {2U, 65536U, BATCHPLAN_ALL_RANKS - 1}) {
    row.row().context_parallel_rank = rank;
    ExpectBoth(row, {.num_rows = 2}, {Field()}, BATCHPLAN_ERROR_CONTEXT_PARALLEL_RANK);
  }
}

// "A total not a multiple of 2 * CP".
TEST_P(MoveErrorTest, RowThatDoesNotDivideIntoChunksIsRefused) {
  PackedRow row(GetParam(), {3, 5}, kTwoRanks);
  row.row().options.row_width = 18;
  ExpectBoth(row, {.num_rows = 2}, {Field()}, BATCHPLAN_ERROR_ROW_WIDTH);
}

TEST_P(MoveErrorTest, ShardingThatDoesNotExistIsRefused) {
  PackedRow row(GetParam(), {3, 5}, kTwoRanks);
  row.row().options.sharding = 2;
  ExpectBoth(row, {.num_rows = 2}, {Field()}, BATCHPLAN_ERROR_SHARDING);
}

// "Sentinel-padded cu_seqlens": -1, or the largest integer, behind the last sequence.
TEST_P(MoveErrorTest, OffsetsPaddedWithSentinelsAreFound) {
  ExpectLayoutError({0, 3, -1, -1}, {0, 4, -1, -1}, kTwoRanks);
  ExpectLayoutError({0, 3, INT32_MAX, INT32_MAX}, {0, 4, INT32_MAX, INT32_MAX}, kTwoRanks);
}

// "True offsets where padded ones were meant".
TEST_P(MoveErrorTest, TrueOffsetsInPlaceOfPaddedOnesAreFound) {
  ExpectLayoutError({0, 3, 8}, {0, 3, 8}, kTwoRanks);
}

TEST_P(MoveErrorTest, OffsetsThatDescendOrLeaveTooLittleRoomAreFound) {
  ExpectLayoutError({0, 3, 2}, {0, 4, 8}, kTwoRanks);
  ExpectLayoutError({0, 3, 8}, {0, 8, 4}, kTwoRanks);
  ExpectLayoutError({0, 5, 6}, {0, 4, 8}, kTwoRanks);
  ExpectLayoutError({1, 3, 6}, {0, 4, 8}, kTwoRanks);
  ExpectLayoutError({0, 3, 6}, {4, 8, 12}, kTwoRanks);
  ExpectLayoutError({INT32_MIN, INT32_MAX, 0}, {INT32_MIN, INT32_MAX, 0}, kTwoRanks);
}

TEST_P(MoveErrorTest, OffsetsBeyondTheRowAreFound) {
  ExpectLayoutError({0, 3, 8}, {0, 4, 20}, kTwoRanks);
}

// "Silently cut tails".
TEST_P(MoveErrorTest, SequenceLongerThanTheNarrowestFieldIsFound) {
  PackedRow row(GetParam(), {3, 5}, kOneRank);
  batchplan_field narrow = FieldOf(source_->data(), destination_->data() + 32, 4, 'p');
  ExpectBoth(row, {.num_rows = 2}, {Field(), narrow}, BATCHPLAN_ERROR_SEQUENCE_TOO_LONG);
  narrow.width = 5;
  EXPECT_EQ(row.Pack({.num_rows = 2}, {Field(), narrow}), BATCHPLAN_OK);
}

TEST_P(MoveErrorTest, SequenceWithoutARowIsFound) {
  PackedRow row(GetParam(), {3, 5}, kOneRank);
  ExpectBoth(row, {.num_rows = 1}, {Field()}, BATCHPLAN_ERROR_SEQUENCE_INDEX);
  Buffer<uint32_t> index(GetParam(), {0, 2});
  ExpectBoth(row, {.sequence_index = index.data(), .num_rows = 2}, {Field()},
             BATCHPLAN_ERROR_SEQUENCE_INDEX);
  batchplan_field entry = Field();
  entry.content = BATCHPLAN_CONTENT_PER_SEQUENCE;
  EXPECT_EQ(row.Pack({.num_rows = 1}, {entry}), BATCHPLAN_ERROR_SEQUENCE_INDEX);
}

TEST_P(MoveErrorTest, RaggedRowsThatAreTooShortOrOutsideOfTheTensorAreFound) {
  PackedRow row(GetParam(), {3, 5}, kOneRank);
  for (const auto& offsets : {std::vector<int64_t>{0, 2, 8}, std::vector<int64_t>{0, 3, 7},
                              std::vector<int64_t>{-1, 3, 8}, std::vector<int64_t>{4, 2, 8},
                              std::vector<int64_t>{0, 5, 65},
                              std::vector<int64_t>{0, 5, std::numeric_limits<int64_t>::max()}}) {
    SCOPED_TRACE(testing::PrintToString(offsets));
    Buffer<int64_t> buffer(GetParam(), offsets);
    ExpectBoth(row, {.offsets = buffer.data(), .num_rows = 2, .num_tokens = 64}, {Field()},
               BATCHPLAN_ERROR_OFFSETS);
  }
}

TEST_P(MoveErrorTest, SequencesAreJudgedWhereThereIsNothingToWriteToo) {
  PackedRow tokens(GetParam(), {5}, kOneRank);
  batchplan_field field = Field();
  field.width = 0;
  EXPECT_EQ(tokens.Unpack({.num_rows = 1}, {field}), BATCHPLAN_ERROR_SEQUENCE_TOO_LONG);

  PackedRow no_cells(GetParam(), {0},
                     {.length_multiple = 1, .context_parallel = 1, .row_width = 0});
  no_cells.SetOffsets({0, 5}, {0, 5});
  EXPECT_EQ(no_cells.Pack({.num_rows = 1}, {Field()}), BATCHPLAN_ERROR_LAYOUT);
}

TEST_P(MoveErrorTest, NoFieldsAreNothingToDo) {
  PackedRow row(GetParam(), {1}, kOneRank);
  row.SetOffsets({0, 5}, {0, 3});
  ExpectBoth(row, {}, {}, BATCHPLAN_OK);
}

TEST_P(MoveErrorTest, ErrorFarBehindInTheRowIsFound) {
  std::vector<int32_t> offsets(1001);
  PackedRow row(GetParam(), std::vector<uint32_t>(1000, 0), kOneRank);
  offsets[900] = 1;
  row.SetOffsets(offsets, offsets);
  EXPECT_EQ(row.Pack({.num_rows = 1000}, {Field()}), BATCHPLAN_ERROR_LAYOUT);
}

TEST_P(MoveErrorTest, ArraysThatAreNotAlignedAreRefused) {
  PackedRow row(GetParam(), {3, 5}, kOneRank);
  ExpectBoth(
      row,
      {.sequence_index = reinterpret_cast<const uint32_t*>(source_->data() + 1), .num_rows = 2},
      {Field()}, BATCHPLAN_ERROR_MISALIGNED);
  ExpectBoth(row,
             {.offsets = reinterpret_cast<const int64_t*>(source_->data() + 4),
              .num_rows = 2,
              .num_tokens = 8},
             {Field()}, BATCHPLAN_ERROR_MISALIGNED);
  row.row().cu_seqlens = reinterpret_cast<const int32_t*>(source_->data() + 2);
  ExpectBoth(row, {.num_rows = 2}, {Field()}, BATCHPLAN_ERROR_MISALIGNED);
}

TEST_P(MoveErrorTest, EmptyTensorsNeedNoAddress) {
  batchplan_field field = Field();
  field.source = nullptr;
  PackedRow no_sequences(GetParam(), {}, kOneRank);
  EXPECT_EQ(no_sequences.Pack({}, {field}), BATCHPLAN_OK);
  EXPECT_EQ(no_sequences.Unpack({}, {field}), BATCHPLAN_OK);
  PackedRow no_cells(GetParam(), {0},
                     {.length_multiple = 1, .context_parallel = 1, .row_width = 0});
  EXPECT_EQ(no_cells.Unpack({.num_rows = 1}, {field}), BATCHPLAN_OK);
  field = Field();
  field.destination = nullptr;
  field.width = 0;
  PackedRow no_tokens(GetParam(), {0}, kOneRank);
  EXPECT_EQ(no_tokens.Unpack({.num_rows = 1}, {field}), BATCHPLAN_OK);
}

// Nobody reads what an allocator left behind.
TEST_P(MoveErrorTest, PackFillsItsDestinationsWithPaddingWhileTheErrorWordHoldsAnError) {
  PackedRow row(GetParam(), {3, 5}, kOneRank);
  Buffer<batchplan_status> error_word(
      GetParam(), std::vector<batchplan_status>{BATCHPLAN_ERROR_ROW_TOO_NARROW});
  Buffer<char> wide_source(GetParam(), std::vector<char>(16 * 500, 's'));
  Buffer<char> wide(GetParam(), 8 * 500);
  Buffer<int32_t> positions(GetParam(), 8);
  Buffer<int64_t> sequence_ids(GetParam(), 8);
  const batchplan_field fields[] = {
      FieldOf(source_->data(), destination_->data(), 8, 'p'),
      FieldOf(wide_source.data(), wide.data(), 8, 'q', 500),
      IdsOf(BATCHPLAN_CONTENT_POSITION_IDS, positions.data()),
      IdsOf(BATCHPLAN_CONTENT_SEQUENCE_IDS, sequence_ids.data()),
  };
  const batchplan_sequences sequences = {.num_rows = 2};
  batchplan_pack(GetParam(), &row.row(), &sequences, fields, 4, error_word.data(), nullptr);
  const std::vector<char> bytes = destination_->Values();
  EXPECT_THAT(std::vector<char>(bytes.begin(), bytes.begin() + 8), Each('p'));
  EXPECT_THAT(std::vector<char>(bytes.begin() + 8, bytes.end()), Each(char{0x5e}));
  EXPECT_THAT(wide.Values(), Each('q'));
  EXPECT_THAT(positions.Values(), Each(0));
  EXPECT_THAT(sequence_ids.Values(), Each(-1));
}

// After a failed layout all sequences are empty; unpacking by it would wipe every row.
TEST_P(MoveErrorTest, UnpackWritesNothingWhileTheErrorWordHoldsAnError) {
  PackedRow row(GetParam(), {0, 0}, kOneRank);
  Buffer<batchplan_status> error_word(
      GetParam(), std::vector<batchplan_status>{BATCHPLAN_ERROR_ROW_TOO_NARROW});
  const batchplan_field field = Field();
  const batchplan_sequences sequences = {.num_rows = 2};
  batchplan_unpack(GetParam(), &row.row(), &sequences, &field, 1, error_word.data(), nullptr);
  EXPECT_THAT(destination_->Values(), Each(char{0x5e}));
}

TEST_P(MoveErrorTest, FirstErrorStaysInTheErrorWord) {
  PackedRow row(GetParam(), {3, 5}, kOneRank);
  Buffer<batchplan_status> error_word(
      GetParam(), std::vector<batchplan_status>{BATCHPLAN_ERROR_ROW_TOO_NARROW});
  const batchplan_field field = Field();
  const batchplan_sequences sequences = {.num_rows = 1};
  batchplan_pack(GetParam(), &row.row(), &sequences, &field, 1, error_word.data(), nullptr);
  EXPECT_THAT(error_word.Values(), Each(BATCHPLAN_ERROR_ROW_TOO_NARROW));
}

// Whatever the arrays hold, a packed row keeps nothing of its old content: only tokens and padding,
// and only padding if the error word held an error.
TEST_P(MoveErrorTest, RandomArraysLeaveNothingInWideDestinations) {
  const RacesAllowed races;
  std::mt19937 random(Seed(6));
  for (uint64_t round = 0; round < Cases(400); ++round) {
    const auto ranks = static_cast<uint32_t>(1 + random() % 3);
    const batchplan_layout_options options = {
        .length_multiple = 2 * ranks,
        .context_parallel = ranks,
        .row_width = 2 * ranks * static_cast<uint32_t>(8 + random() % 40),
        .sharding = static_cast<batchplan_sharding>(random() % 2)};
    const auto any = [&]() -> int32_t {
      const uint32_t kind = random() % 6;
      if (kind == 0) return static_cast<int32_t>(random());
      if (kind == 1) return static_cast<int32_t>(random() % 3) - 1;
      return static_cast<int32_t>(random() % (options.row_width + 4));
    };
    PackedRow row(GetParam(), {1, 1, 1, 1}, options,
                  random() % 3 == 0 ? BATCHPLAN_ALL_RANKS : random() % ranks);
    row.SetOffsets({0, any(), any(), any(), any()},
                   {random() % 2 == 0 ? 0 : any(), any(), any(), any(), any()});
    Buffer<uint32_t> index(GetParam(),
                           {static_cast<uint32_t>(any()), static_cast<uint32_t>(any()), 1, 2});
    Buffer<int64_t> offsets(GetParam(), {any(), any(), any(), any(), any()});
    const batchplan_sequences sequences = {
        .sequence_index = random() % 2 == 0 ? index.data() : nullptr,
        .offsets = random() % 2 == 0 ? offsets.data() : nullptr,
        .num_rows = 4,
        .num_tokens = 64};
    const uint32_t elements = 128 + random() % 300;
    Buffer<char> source(GetParam(), std::vector<char>(64 * elements, 's'), random() % 16);
    Buffer<char> packed(GetParam(), row.cells() * elements, random() % 16);
    Buffer<int64_t> positions(GetParam(), row.cells());
    batchplan_field field = FieldOf(source.data(), packed.data(), 16, 'p', elements);
    if (random() % 4 == 0) field.content = BATCHPLAN_CONTENT_PER_SEQUENCE;
    if (random() % 2 == 0) field.token_shift = any();
    const bool holds_error = random() % 2 == 0;
    Buffer<batchplan_status> error_word(
        GetParam(),
        std::vector<batchplan_status>{holds_error ? BATCHPLAN_ERROR_LAYOUT : BATCHPLAN_OK});
    const batchplan_field fields[] = {field,
                                      IdsOf(BATCHPLAN_CONTENT_POSITION_IDS, positions.data())};
    static_cast<void>(
        batchplan_pack(GetParam(), &row.row(), &sequences, fields, 2, error_word.data(), nullptr));
    SCOPED_TRACE(round);
    if (holds_error) {
      ASSERT_THAT(packed.Values(), Each('p'));
    } else {
      ASSERT_THAT(packed.Values(), Each(testing::AnyOf('p', 's')));
    }
    ASSERT_THAT(positions.Values(),
                Each(testing::AllOf(testing::Ge(0), testing::Lt(options.row_width))));
  }
}

// Whatever the arrays hold, no tensor's guard is overwritten.
TEST_P(MoveErrorTest, RandomArraysWriteNothingOutOfBounds) {
  const RacesAllowed two_sequences_may_have_one_row;
  std::mt19937 random(Seed(5));
  const auto any = [&]() -> int32_t {
    switch (random() % 4) {
      case 0:
        return static_cast<int32_t>(random());
      case 1:
        return static_cast<int32_t>(random() % 3) - 1;
      default:
        return static_cast<int32_t>(random() % 20);
    }
  };
  for (uint64_t round = 0; round < Cases(1000); ++round) {
    batchplan_layout_options options = kTwoRanks;
    options.sharding = static_cast<batchplan_sharding>(random() % 2);
    PackedRow row(GetParam(), {1, 1, 1}, options, random() % 3 == 0 ? BATCHPLAN_ALL_RANKS : 1);
    row.SetOffsets({0, any(), any(), any()}, {random() % 2 == 0 ? 0 : any(), any(), any(), any()});
    Buffer<uint32_t> index(GetParam(),
                           {static_cast<uint32_t>(any()), static_cast<uint32_t>(any()), 1});
    Buffer<int64_t> offsets(GetParam(), {any(), any(), any(), any(), any()});
    const batchplan_sequences sequences = {
        .sequence_index = random() % 2 == 0 ? index.data() : nullptr,
        .offsets = random() % 2 == 0 ? offsets.data() : nullptr,
        .num_rows = 4,
        .num_tokens = 16};
    Buffer<int32_t> unpacked(GetParam(), 16);
    Buffer<int32_t> packed(GetParam(), 16);
    batchplan_field field = FieldOf(unpacked.data(), packed.data(), 4);
    field.token_shift = any();
    static_cast<void>(row.Pack(sequences, {field}));
    field.source = packed.data();
    field.destination = unpacked.data();
    static_cast<void>(row.Unpack(sequences, {field}));
    unpacked.Values();
    packed.Values();
  }
}

}  // namespace
}  // namespace batchplan::kernels
