// Random micro-batches, layouts and fields, compared with rows laid out token by token without code
// of the library.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "move_case.h"
#include "naive_row.h"
#include "packed_row.h"
#include "random_cases.h"

namespace batchplan::kernels {
namespace {

std::span<const std::byte> TokenAt(const Bytes& tensor, size_t token, size_t token_bytes) {
  return std::span(tensor).subspan(token * token_bytes, token_bytes);
}

void PutToken(Bytes& tensor, size_t token, std::span<const std::byte> value) {
  std::ranges::copy(value, tensor.begin() + static_cast<std::ptrdiff_t>(token * value.size()));
}

// Runs a case on a backend, and has the naive answer.
class Question {
 public:
  Question(batchplan_backend backend, const Case& c, Generator& generator)
      : backend_(backend),
        case_(c),
        row_(backend, c.lengths, c.options, c.rank),
        cells_(NaiveRow(c.lengths, c.options, c.rank)),
        offsets_(RowOffsets(c, generator)),
        index_buffer_(backend, c.index),
        offsets_buffer_(backend, offsets_),
        sequence_tokens_(static_cast<size_t>(offsets_.back()) + (c.ragged ? 2 : 0)),
        pad_(generator.RandomBytes(c.element_size)) {
    for (size_t i = 0; i < c.elements_per_token; ++i) {
      pad_token_.insert(pad_token_.end(), pad_.begin(), pad_.end());
    }
  }

  size_t sequence_bytes() const { return sequence_tokens_ * case_.token_bytes(); }
  size_t packed_bytes() const { return cells_.size() * case_.token_bytes(); }

  Bytes Pack(const Bytes& sequences) {
    Buffer<std::byte> source(backend_, sequences, case_.source_misalignment);
    Buffer<std::byte> packed(backend_, packed_bytes(), case_.destination_misalignment);
    EXPECT_EQ(row_.Pack(Sequences(), {Field(source.data(), packed.data())}), BATCHPLAN_OK);
    return packed.Values();
  }

  // Unpacks into a tensor with the content `sequences`.
  Bytes Unpack(const Bytes& packed, const Bytes& sequences) {
    Buffer<std::byte> source(backend_, packed, case_.source_misalignment);
    Buffer<std::byte> destination(backend_, sequences, case_.destination_misalignment);
    EXPECT_EQ(row_.Unpack(Sequences(), {Field(source.data(), destination.data())}), BATCHPLAN_OK);
    return destination.Values();
  }

  Bytes NaivePacked(const Bytes& sequences) const {
    Bytes packed(packed_bytes());
    for (size_t i = 0; i < cells_.size(); ++i) {
      const NaiveCell& cell = cells_[i];
      std::span<const std::byte> value = pad_token_;
      if (!cell.is_padding) {
        const int64_t token = cell.token + case_.shift;
        if (token >= 0 && token < case_.lengths[cell.sequence]) {
          value = TokenAt(sequences, RowBegin(cell.sequence) + token, case_.token_bytes());
        }
      }
      PutToken(packed, i, value);
    }
    return packed;
  }

  Bytes NaiveUnpacked(const Bytes& packed, Bytes sequences) const {
    for (size_t sequence = 0; sequence < case_.lengths.size(); ++sequence) {
      const uint32_t row_end = case_.ragged ? case_.lengths[sequence] : case_.width;
      for (uint32_t token = 0; token < row_end; ++token) {
        PutToken(sequences, RowBegin(sequence) + token, pad_token_);
      }
    }
    for (size_t i = 0; i < cells_.size(); ++i) {
      const NaiveCell& cell = cells_[i];
      if (cell.is_padding) continue;
      const int64_t token = cell.token + case_.shift;
      if (token < 0 || token >= case_.lengths[cell.sequence]) continue;
      PutToken(sequences, RowBegin(cell.sequence) + token, TokenAt(packed, i, case_.token_bytes()));
    }
    return sequences;
  }

 private:
  size_t RowBegin(size_t sequence) const {
    return static_cast<size_t>(offsets_[case_.index[sequence]]);
  }

  batchplan_sequences Sequences() {
    return {.sequence_index = index_buffer_.data(),
            .offsets = case_.ragged ? offsets_buffer_.data() : nullptr,
            .num_rows = case_.num_rows,
            .num_tokens = sequence_tokens_};
  }

  batchplan_field Field(const void* source, void* destination) const {
    batchplan_field field = {.element_size = case_.element_size,
                             .elements_per_token = case_.elements_per_token,
                             .source = source,
                             .destination = destination,
                             .width = case_.width,
                             .token_shift = case_.shift};
    std::memcpy(field.pad_value, pad_.data(), pad_.size());
    return field;
  }

  batchplan_backend backend_;
  Case case_;
  PackedRow row_;
  std::vector<NaiveCell> cells_;
  std::vector<int64_t> offsets_;
  Buffer<uint32_t> index_buffer_;
  Buffer<int64_t> offsets_buffer_;
  size_t sequence_tokens_;
  Bytes pad_;
  Bytes pad_token_;
};

using MovePropertyTest = EveryBackendTest;
BATCHPLAN_EVERY_BACKEND(MovePropertyTest);

TEST_P(MovePropertyTest, RandomFieldsArePackedAndUnpackedAsByHand) {
  Generator generator(Seed(20250131));
  for (uint64_t round = 0; round < Cases(1500); ++round) {
    const Case c = generator.Next();
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << testing::PrintToString(c));
    Question question(GetParam(), c, generator);
    const Bytes sequences = generator.RandomBytes(question.sequence_bytes());
    const Bytes packed = generator.RandomBytes(question.packed_bytes());
    ASSERT_EQ(question.Pack(sequences), question.NaivePacked(sequences));
    ASSERT_EQ(question.Unpack(packed, sequences), question.NaiveUnpacked(packed, sequences));
  }
}

TEST_P(MovePropertyTest, UnpackingWhatWasPackedGivesTheSequencesBack) {
  Generator generator(Seed(4711));
  for (uint64_t round = 0; round < Cases(500); ++round) {
    Case c = generator.Next();
    c.rank = BATCHPLAN_ALL_RANKS;
    c.shift = 0;
    c.ragged = true;
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << testing::PrintToString(c));
    Question question(GetParam(), c, generator);
    const Bytes sequences = generator.RandomBytes(question.sequence_bytes());
    ASSERT_EQ(question.Unpack(question.Pack(sequences), sequences), sequences);
  }
}

TEST_P(MovePropertyTest, RanksTogetherHoldEveryPlaceOfEverySequenceOnce) {
  Generator generator(Seed(99));
  for (uint64_t round = 0; round < Cases(200); ++round) {
    const Case c = generator.Next();
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << testing::PrintToString(c));
    std::vector<std::pair<int32_t, int64_t>> places;
    for (uint32_t rank = 0; rank < c.options.context_parallel; ++rank) {
      PackedRow row(GetParam(), c.lengths, c.options, rank);
      Buffer<int32_t> sequence_ids(GetParam(), row.cells());
      Buffer<int64_t> position_ids(GetParam(), row.cells());
      ASSERT_EQ(row.Pack({}, {IdsOf(BATCHPLAN_CONTENT_SEQUENCE_IDS, sequence_ids.data()),
                              IdsOf(BATCHPLAN_CONTENT_POSITION_IDS, position_ids.data())}),
                BATCHPLAN_OK);
      const std::vector<int32_t> sequences = sequence_ids.Values();
      const std::vector<int64_t> positions = position_ids.Values();
      for (size_t i = 0; i < sequences.size(); ++i) places.emplace_back(sequences[i], positions[i]);
    }
    std::vector<std::pair<int32_t, int64_t>> expected;
    for (const NaiveCell& cell : NaiveRow(c.lengths, c.options, BATCHPLAN_ALL_RANKS)) {
      expected.emplace_back(cell.sequence, cell.token);
    }
    ASSERT_EQ(places, expected);
    std::ranges::sort(places);
    ASSERT_EQ(std::ranges::adjacent_find(places), places.end());
    ASSERT_EQ(places.size(), c.options.row_width);
  }
}

TEST_P(MovePropertyTest, FieldsOfOneLaunchAreWhatTheyAreAlone) {
  Generator generator(Seed(321));
  for (uint64_t round = 0; round < Cases(200); ++round) {
    const Case c = generator.Next();
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << testing::PrintToString(c));
    PackedRow row(GetParam(), c.lengths, c.options, c.rank);
    Buffer<uint32_t> index(GetParam(), c.index);
    const batchplan_sequences sequences = {.sequence_index = index.data(), .num_rows = c.num_rows};
    const size_t tokens = size_t{c.num_rows} * c.width;
    std::vector<Buffer<std::byte>> sources;
    std::vector<Buffer<std::byte>> alone;
    std::vector<Buffer<std::byte>> together;
    std::vector<batchplan_field> fields;
    for (const uint32_t size : {1U, 8U, 2U, 16U, 4U}) {
      // One field has an entry for each sequence, another has no source.
      const batchplan_content content = size == 2   ? BATCHPLAN_CONTENT_PER_SEQUENCE
                                        : size == 8 ? BATCHPLAN_CONTENT_POSITION_IDS
                                                    : BATCHPLAN_CONTENT_TOKENS;
      const uint32_t elements = size == 8 ? 1 : 1 + generator.Below(80);
      const size_t token_bytes = size_t{size} * elements;
      const size_t misaligned = size_t{generator.Below(16 / size)} * size;
      sources.emplace_back(GetParam(), generator.RandomBytes(tokens * token_bytes), misaligned);
      alone.emplace_back(GetParam(), row.cells() * token_bytes);
      together.emplace_back(GetParam(), row.cells() * token_bytes, misaligned);
      fields.push_back({.content = content,
                        .element_size = size,
                        .elements_per_token = elements,
                        .source = sources.back().data(),
                        .destination = alone.back().data(),
                        .width = c.width,
                        .token_shift = c.shift});
      ASSERT_EQ(row.Pack(sequences, {fields.back()}), BATCHPLAN_OK);
      fields.back().destination = together.back().data();
    }
    ASSERT_EQ(row.Pack(sequences, fields), BATCHPLAN_OK);
    for (size_t i = 0; i < fields.size(); ++i) {
      ASSERT_EQ(together[i].Values(), alone[i].Values()) << "field " << i;
    }
  }
}

TEST_P(MovePropertyTest, EveryTokenGetsTheEntryOfItsSequence) {
  Generator generator(Seed(8));
  for (uint64_t round = 0; round < Cases(200); ++round) {
    const Case c = generator.Next();
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << testing::PrintToString(c));
    PackedRow row(GetParam(), c.lengths, c.options, c.rank);
    Buffer<uint32_t> index(GetParam(), c.index);
    const uint32_t elements = 1 + generator.Below(3);
    std::vector<int32_t> entries(size_t{c.num_rows} * elements);
    for (int32_t& entry : entries) entry = static_cast<int32_t>(generator.Below(1U << 30));
    Buffer<int32_t> source(GetParam(), entries);
    Buffer<int32_t> packed(GetParam(), row.cells() * elements);
    batchplan_field field = FieldOf<int32_t>(source.data(), packed.data(), 0, -7, elements);
    field.content = BATCHPLAN_CONTENT_PER_SEQUENCE;
    ASSERT_EQ(row.Pack({.sequence_index = index.data(), .num_rows = c.num_rows}, {field}),
              BATCHPLAN_OK);
    std::vector<int32_t> expected;
    for (const NaiveCell& cell : NaiveRow(c.lengths, c.options, c.rank)) {
      for (uint32_t k = 0; k < elements; ++k) {
        expected.push_back(
            cell.is_padding ? -7 : entries[size_t{c.index[cell.sequence]} * elements + k]);
      }
    }
    ASSERT_EQ(packed.Values(), expected);
  }
}

// More words than a thread block moves, with every alignment of both sides.
TEST_P(MovePropertyTest, WideTokensAtEveryAlignmentAreMovedWhole) {
  Generator generator(Seed(16));
  for (const uint32_t size : {1U, 2U, 4U, 8U}) {
    for (uint32_t offset = 0; offset < 16; offset += size) {
      Case c = generator.Next();
      c.lengths = {3, 0, 7};
      c.index = {1, 0, 2};
      c.num_rows = 3;
      c.options = {.length_multiple = 4, .context_parallel = 2, .row_width = 16};
      c.rank = 1;
      c.width = 8;
      c.element_size = size;
      c.elements_per_token = 8191;
      c.shift = 0;
      c.source_misalignment = offset;
      c.destination_misalignment = (offset * 3) % 16;
      SCOPED_TRACE(testing::PrintToString(c));
      Question question(GetParam(), c, generator);
      const Bytes sequences = generator.RandomBytes(question.sequence_bytes());
      const Bytes packed = generator.RandomBytes(question.packed_bytes());
      ASSERT_EQ(question.Pack(sequences), question.NaivePacked(sequences));
      ASSERT_EQ(question.Unpack(packed, sequences), question.NaiveUnpacked(packed, sequences));
    }
  }
}

}  // namespace
}  // namespace batchplan::kernels
