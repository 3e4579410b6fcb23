// Packing and unpacking with shared prefixes: the documented example, edge cases, random forests
// compared with paths followed token by token, and errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "packed_row.h"
#include "shared_case.h"

namespace batchplan::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

using SharedMoveTest = EveryBackendTest;
BATCHPLAN_EVERY_BACKEND(SharedMoveTest);

TEST_P(SharedMoveTest, DocumentedExampleIsPackedOnce) {
  PackedRow row = RowOfForest(GetParam(), kExampleForest, 1);
  Buffer<char> source(GetParam(), Characters({"abcde??", "abcfghi", "abjk???"}));
  Buffer<char> packed(GetParam(), row.cells());
  Buffer<int32_t> position_ids(GetParam(), row.cells());
  Buffer<int64_t> sequence_ids(GetParam(), row.cells());
  EXPECT_EQ(row.Pack({.num_rows = 3}, {FieldOf(source.data(), packed.data(), 7, '.'),
                                       IdsOf(BATCHPLAN_CONTENT_POSITION_IDS, position_ids.data()),
                                       IdsOf(BATCHPLAN_CONTENT_SEQUENCE_IDS, sequence_ids.data())}),
            BATCHPLAN_OK);
  EXPECT_THAT(packed.Values(), ElementsAreArray(std::string_view("abcdefghijk.")));
  EXPECT_THAT(position_ids.Values(), ElementsAre(0, 1, 2, 3, 4, 3, 4, 5, 6, 2, 3, 0));
  EXPECT_THAT(sequence_ids.Values(), ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, -1));
}

TEST_P(SharedMoveTest, DocumentedExampleIsUnpackedWhole) {
  PackedRow row = RowOfForest(GetParam(), kExampleForest, 1);
  Buffer<char> packed(GetParam(), Characters({"abcdefghijk?"}));
  Buffer<char> unpacked(GetParam(), 3 * 8);
  Buffer<int32_t> predecessors(GetParam(), 3 * 7);
  batchplan_field before = IdsOf(BATCHPLAN_CONTENT_PREDECESSORS, predecessors.data());
  before.width = 7;
  EXPECT_EQ(row.Unpack({.num_rows = 3}, {FieldOf(packed.data(), unpacked.data(), 8, '.'), before}),
            BATCHPLAN_OK);
  EXPECT_THAT(unpacked.Values(),
              ElementsAreArray(Characters({"abcde...", "abcfghi.", "abjk...."})));
  EXPECT_THAT(predecessors.Values(), ElementsAre(-1, 0, 1, 2, 3, -1, -1,  //
                                                 -1, 0, 1, 2, 5, 6, 7,    //
                                                 -1, 0, 1, 9, -1, -1, -1));
}

void CopyToken(Bytes& to, size_t at, const Bytes& from, size_t token, size_t bytes) {
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(token * bytes), bytes,
              to.begin() + static_cast<ptrdiff_t>(at * bytes));
}

Bytes Padding(size_t tokens, size_t token_bytes, const Bytes& pad) {
  Bytes bytes(tokens * token_bytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = pad[i % pad.size()];
  return bytes;
}

batchplan_field FieldOfCase(const SharedCase& c, const void* source, void* destination,
                            const Bytes& pad) {
  batchplan_field field = {.element_size = c.field.element_size,
                           .elements_per_token = c.field.elements_per_token,
                           .source = source,
                           .destination = destination,
                           .width = c.field.width};
  std::ranges::copy(pad, reinterpret_cast<std::byte*>(field.pad_value));
  return field;
}

TEST_P(SharedMoveTest, RowsAreWhatTheirSequencesLay) {
  ForEachForest(530, 150, [](const SharedCase& c, Generator& generator) {
    const NaiveForest naive(c.forest);
    const size_t bytes = c.field.token_bytes();
    const Bytes values = generator.RandomBytes(c.tokens() * bytes);
    const Bytes pad = generator.RandomBytes(c.field.element_size);
    PackedRow row = RowOfForest(GetParam(), c.forest, c.tail);
    Buffer<uint32_t> index(GetParam(), c.field.index);
    Buffer<int64_t> offsets(GetParam(), c.offsets);
    Buffer<std::byte> source(GetParam(), values, c.field.source_misalignment);
    Buffer<std::byte> packed(GetParam(), row.cells() * bytes, c.field.destination_misalignment);
    Buffer<int64_t> position_ids(GetParam(), row.cells());
    Buffer<int32_t> sequence_ids(GetParam(), row.cells());
    ASSERT_EQ(row.Pack(c.Sequences(index, offsets),
                       {FieldOfCase(c, source.data(), packed.data(), pad),
                        IdsOf(BATCHPLAN_CONTENT_POSITION_IDS, position_ids.data()),
                        IdsOf(BATCHPLAN_CONTENT_SEQUENCE_IDS, sequence_ids.data())}),
              BATCHPLAN_OK);
    Bytes expected = Padding(row.cells(), bytes, pad);
    std::vector<int64_t> positions(naive.position_ids.begin(), naive.position_ids.end());
    std::vector<int32_t> sequences = naive.sequence_ids;
    for (size_t cell = 0; cell < sequences.size(); ++cell) {
      const auto place = c.PlaceOf(static_cast<size_t>(sequences[cell]), positions[cell]);
      CopyToken(expected, cell, values, place, bytes);
    }
    for (uint32_t i = 0; i < c.tail; ++i) {
      positions.push_back(i);
      sequences.push_back(-1);
    }
    ASSERT_TRUE(packed.Values() == expected);
    ASSERT_EQ(position_ids.Values(), positions);
    ASSERT_EQ(sequence_ids.Values(), sequences);
  });
}

TEST_P(SharedMoveTest, SequencesAreUnpackedWhole) {
  ForEachForest(540, 150, [](const SharedCase& c, Generator& generator) {
    const NaiveForest naive(c.forest);
    const size_t bytes = c.field.token_bytes();
    PackedRow row = RowOfForest(GetParam(), c.forest, c.tail);
    const Bytes values = generator.RandomBytes(row.cells() * bytes);
    const Bytes before = generator.RandomBytes(c.tokens() * bytes);
    const Bytes pad = generator.RandomBytes(c.field.element_size);
    Buffer<uint32_t> index(GetParam(), c.field.index);
    Buffer<int64_t> offsets(GetParam(), c.offsets);
    Buffer<std::byte> packed(GetParam(), values, c.field.source_misalignment);
    Buffer<std::byte> unpacked(GetParam(), before, c.field.destination_misalignment);
    Buffer<int32_t> predecessors(GetParam(), std::vector<int32_t>(c.tokens(), -7));
    batchplan_field ids = IdsOf(BATCHPLAN_CONTENT_PREDECESSORS, predecessors.data());
    ids.width = c.field.width;
    ASSERT_EQ(row.Unpack(c.Sequences(index, offsets),
                         {FieldOfCase(c, packed.data(), unpacked.data(), pad), ids}),
              BATCHPLAN_OK);
    Bytes expected = before;
    std::vector<int32_t> expected_ids(c.tokens(), -7);
    const Bytes padding = Padding(1, bytes, pad);
    for (size_t i = 0; i < naive.paths.size(); ++i) {
      const std::vector<int32_t>& path = naive.paths[i];
      const size_t row_end = c.field.ragged ? path.size() : c.field.width;
      for (size_t token = 0; token < row_end; ++token) {
        const size_t place = c.PlaceOf(i, token);
        const bool is_padding = token >= path.size();
        CopyToken(expected, place, is_padding ? padding : values, is_padding ? 0 : path[token],
                  bytes);
        expected_ids[place] = is_padding || token == 0 ? -1 : path[token - 1];
      }
    }
    ASSERT_TRUE(unpacked.Values() == expected);
    ASSERT_EQ(predecessors.Values(), expected_ids);
  });
}

TEST_P(SharedMoveTest, RowsOfNoWidthHaveNoTensors) {
  PackedRow row = RowOfForest(GetParam(), {}, 0);
  const float* const none = nullptr;
  const batchplan_field field = FieldOf(none, static_cast<float*>(nullptr), 4);
  EXPECT_EQ(row.Unpack({}, {field}), BATCHPLAN_OK);
  EXPECT_EQ(row.Pack({}, {field}), BATCHPLAN_OK);
}

TEST_P(SharedMoveTest, WhatHasNoMeaningInASharedRowIsRefused) {
  PackedRow row = RowOfForest(GetParam(), kExampleForest, 1);
  Buffer<float> tokens(GetParam(), 3 * 7);
  Buffer<float> packed(GetParam(), row.cells());
  batchplan_field shifted = FieldOf(tokens.data(), packed.data(), 7);
  for (const int32_t shift : {1, -1}) {
    shifted.token_shift = shift;
    EXPECT_EQ(row.Pack({.num_rows = 3}, {shifted}), BATCHPLAN_ERROR_SHARED_PREFIXES);
    EXPECT_EQ(row.Unpack({.num_rows = 3}, {shifted}), BATCHPLAN_ERROR_SHARED_PREFIXES);
  }
  batchplan_field spread = FieldOf(tokens.data(), packed.data(), 0);
  spread.content = BATCHPLAN_CONTENT_PER_SEQUENCE;
  EXPECT_EQ(row.Pack({.num_rows = 3}, {spread}), BATCHPLAN_ERROR_SHARED_PREFIXES);
  EXPECT_EQ(row.Reduce({.values = packed.data(), .value_type = BATCHPLAN_FLOAT32}),
            BATCHPLAN_ERROR_SHARED_PREFIXES);
  row.row().options = {.length_multiple = 4, .context_parallel = 2, .row_width = 12};
  EXPECT_EQ(row.Pack({.num_rows = 3}, {FieldOf(tokens.data(), packed.data(), 7)}),
            BATCHPLAN_ERROR_SHARDING);
}

TEST_P(SharedMoveTest, PredecessorsAreUnpackedFromSharedRowsAlone) {
  Buffer<int32_t> ids(GetParam(), 3 * 7);
  batchplan_field before = IdsOf(BATCHPLAN_CONTENT_PREDECESSORS, ids.data());
  before.width = 7;
  PackedRow shared = RowOfForest(GetParam(), kExampleForest, 10);
  EXPECT_EQ(shared.Pack({.num_rows = 3}, {before}), BATCHPLAN_ERROR_CONTENT);
  PackedRow apart(GetParam(), kExampleForest.lengths, RowOfWidth(24));
  EXPECT_EQ(apart.Unpack({.num_rows = 3}, {before}), BATCHPLAN_ERROR_CONTENT);
  before.width = 6;
  EXPECT_EQ(shared.Unpack({.num_rows = 3}, {before}), BATCHPLAN_ERROR_SEQUENCE_TOO_LONG);
}

// Whatever the arrays hold, nothing is written outside of the outputs, and errors are found.
TEST_P(SharedMoveTest, ArraysThatAreNoLayoutAreErrors) {
  const std::vector<int32_t> cu_seqlens = {0, 5, 12, 16};
  const std::vector<int32_t> cu_new = {0, 5, 9, 11};
  const std::vector<int32_t> least_shared = {0, 0, 2};
  const auto status_of = [&](const std::vector<int32_t>& seqlens, const std::vector<int32_t>& news,
                             const std::vector<int32_t>& least) {
    PackedRow row = RowOfForest(GetParam(), kExampleForest, 1);
    row.SetOffsets(seqlens, news);
    row.SetLeastShared(least);
    Buffer<float> sequences(GetParam(), std::vector<float>(3 * 7));
    Buffer<float> packed(GetParam(), std::vector<float>(row.cells()));
    Buffer<float> unpacked(GetParam(), 3 * 7);
    Buffer<float> gradient(GetParam(), row.cells());
    Buffer<int32_t> predecessors(GetParam(), 3 * 7);
    batchplan_field before = IdsOf(BATCHPLAN_CONTENT_PREDECESSORS, predecessors.data());
    before.width = 7;
    Buffer<float> packed_again(GetParam(), row.cells());
    const batchplan_status status =
        row.Unpack({.num_rows = 3}, {FieldOf(packed.data(), unpacked.data(), 7), before});
    EXPECT_EQ(row.Pack({.num_rows = 3}, {FieldOf(sequences.data(), packed_again.data(), 7)}),
              status);
    EXPECT_EQ(row.UnpackGradient({.num_rows = 3}, {.data_type = BATCHPLAN_FLOAT32,
                                                   .elements_per_token = 1,
                                                   .width = 7,
                                                   .source = sequences.data(),
                                                   .destination = gradient.data()}),
              status);
    EXPECT_EQ(packed_again.Values().size(), row.cells());
    EXPECT_EQ(gradient.Values().size(), row.cells());
    unpacked.Values();
    predecessors.Values();
    return status;
  };
  EXPECT_EQ(status_of(cu_seqlens, cu_new, least_shared), BATCHPLAN_OK);
  for (const std::vector<int32_t>& least :
       {std::vector<int32_t>{1, 0, 2}, {0, 3, 2}, {0, 0, 3}, {0, 0, 1}, {-5, -5, -5}, {9, 9, 9}}) {
    EXPECT_EQ(status_of(cu_seqlens, cu_new, least), BATCHPLAN_ERROR_LAYOUT);
  }
  for (const std::vector<int32_t>& news : {std::vector<int32_t>{1, 5, 9, 11},
                                           {0, 4, 9, 11},
                                           {0, 6, 9, 11},
                                           {0, 5, 4, 11},
                                           {0, 5, 9, 13},
                                           {0, 5, 9, 14},
                                           {0, -5, 9, 11}}) {
    EXPECT_EQ(status_of(cu_seqlens, news, least_shared), BATCHPLAN_ERROR_LAYOUT);
  }
  EXPECT_EQ(status_of({0, 5, 12, 11}, cu_new, least_shared), BATCHPLAN_ERROR_LAYOUT);
  EXPECT_EQ(status_of({0, INT32_MAX, 12, 16}, cu_new, least_shared), BATCHPLAN_ERROR_LAYOUT);
  EXPECT_EQ(status_of({0, 5, 5, 9}, {0, 5, 5, 8}, {0, 0, 1}), BATCHPLAN_ERROR_LAYOUT);
}

}  // namespace
}  // namespace batchplan::kernels
