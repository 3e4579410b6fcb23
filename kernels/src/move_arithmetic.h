// From where to where the tokens of a field move, one text for the host executor and the CUDA
// kernels.
//
// Packing asks for every cell which token of the source it gets; unpacking asks for every token of
// the destination which cell it comes from. Both write each destination once, so there is nothing
// to add up and nothing to race for.

#ifndef BATCHPLAN_KERNELS_SRC_MOVE_ARITHMETIC_H_
#define BATCHPLAN_KERNELS_SRC_MOVE_ARITHMETIC_H_

#include <stdint.h>

#include "batchplan/kernels/pack.h"
#include "src/host_device.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels {

// What the executors are asked: checked, and the same for packing and unpacking.
struct Movement {
  Row row;
  // All zero if no field has a source.
  batchplan_sequences sequences;
  bool has_source;
  // The least width of the padded fields.
  uint64_t narrowest;
  const batchplan_field* fields;
  uint32_t num_fields;
};

// No token: padding.
inline constexpr int64_t kPadding = -1;

// Whether `field` has a source, and so needs batchplan_sequences.
constexpr bool HasSource(const batchplan_field& field) {
  return field.content == BATCHPLAN_CONTENT_TOKENS ||
         field.content == BATCHPLAN_CONTENT_PER_SEQUENCE;
}

// The status of one field's descriptor, to pack or to unpack.
constexpr batchplan_status CheckField(const batchplan_field& field, bool ragged) {
  const bool is_ids = field.content == BATCHPLAN_CONTENT_POSITION_IDS ||
                      field.content == BATCHPLAN_CONTENT_SEQUENCE_IDS;
  if (!is_ids && !HasSource(field)) return BATCHPLAN_ERROR_CONTENT;
  const uint32_t size = field.element_size;
  const bool is_power_of_two = size != 0 && (size & (size - 1)) == 0;
  if (!is_power_of_two || size > 16 || (is_ids && size != 4 && size != 8)) {
    return BATCHPLAN_ERROR_ELEMENT_SIZE;
  }
  if (field.elements_per_token < 1 || field.elements_per_token > BATCHPLAN_MAX_TOKEN_BYTES / size ||
      (is_ids && field.elements_per_token != 1)) {
    return BATCHPLAN_ERROR_TOKEN_SIZE;
  }
  if (!ragged && field.content == BATCHPLAN_CONTENT_TOKENS && field.width > kMaxOffset) {
    return BATCHPLAN_ERROR_WIDTH;
  }
  return BATCHPLAN_OK;
}

// The tokens of a sequence that have a partner `shift` tokens away: [begin, end).
struct TokenRange {
  uint32_t begin;
  uint32_t end;
};

BATCHPLAN_HOST_DEVICE constexpr TokenRange WithPartner(uint32_t length, int32_t shift) {
  const int64_t begin = shift < 0 ? -int64_t{shift} : 0;
  const int64_t end = shift > 0 ? int64_t{length} - shift : length;
  if (begin >= end) return {0, 0};
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

// The row of the unpacked side that sequence `sequence` has; num_rows or more if its index is
// wrong.
BATCHPLAN_HOST_DEVICE inline uint64_t RowOfSequence(const batchplan_sequences& sequences,
                                                    uint32_t sequence) {
  return sequences.sequence_index != nullptr ? sequences.sequence_index[sequence] : sequence;
}

// Which token of a field of `width` is token `token` of row `sequence_row`; kPadding if that is
// outside of the field.
BATCHPLAN_HOST_DEVICE inline int64_t TokenOfRow(const batchplan_sequences& sequences,
                                                uint64_t width, uint64_t sequence_row,
                                                uint32_t token) {
  if (sequence_row >= sequences.num_rows) return kPadding;
  if (sequences.offsets == nullptr) {
    return token < width ? static_cast<int64_t>(sequence_row * width + token) : kPadding;
  }
  const int64_t begin = sequences.offsets[sequence_row];
  const int64_t end = sequences.offsets[sequence_row + 1];
  const bool inside = begin >= 0 && end >= begin && token < end - begin &&
                      static_cast<uint64_t>(end) <= sequences.num_tokens;
  return inside ? begin + token : kPadding;
}

// Where a destination's token comes from: token `source` of the other side, kPadding if from
// nowhere. The `run` - 1 tokens after it come from the tokens after that one, or from nowhere as
// well.
struct SourceRun {
  int64_t source;
  uint32_t run;
};

// Packing: which token of the source, for per-sequence content which row, the cells of `tokens`
// get.
BATCHPLAN_HOST_DEVICE inline SourceRun PackSource(const Row& row,
                                                  const batchplan_sequences& sequences,
                                                  batchplan_content content, uint64_t width,
                                                  int32_t shift, uint32_t sequence,
                                                  const TokenRun& tokens) {
  const uint32_t length = LengthOf(row, sequence);
  const auto [token, run] = tokens;
  if (token >= length) return {kPadding, run};
  const uint64_t sequence_row = RowOfSequence(sequences, sequence);
  if (content == BATCHPLAN_CONTENT_PER_SEQUENCE) {
    const bool exists = sequence_row < sequences.num_rows;
    return {exists ? static_cast<int64_t>(sequence_row) : kPadding, Least(run, length - token)};
  }
  const TokenRange range = WithPartner(length, shift);
  if (token < range.begin) return {kPadding, Least(run, range.begin - token)};
  if (token >= range.end) return {kPadding, run};
  const auto partner = static_cast<uint32_t>(int64_t{token} + shift);
  return {TokenOfRow(sequences, width, sequence_row, partner), Least(run, range.end - token)};
}

// Unpacking: which cell of the packed side the tokens from `token` to the end of the sequence's row
// at `row_end` come from.
BATCHPLAN_HOST_DEVICE inline SourceRun UnpackSource(const Row& row, int32_t shift,
                                                    uint32_t sequence, uint32_t token,
                                                    uint32_t row_end) {
  const uint32_t length = LengthOf(row, sequence);
  if (token >= length) return {kPadding, row_end - token};
  // Token t came from the place of token t - shift.
  const TokenRange range = WithPartner(length, shift);
  const int64_t place = int64_t{token} - shift;
  if (place < range.begin) {
    return {kPadding, static_cast<uint32_t>(Least(range.begin - place, int64_t{length} - token))};
  }
  if (place >= range.end) return {kPadding, length - token};
  const CellRun from = CellOfToken(row, ShardOf(row, sequence), static_cast<uint32_t>(place));
  const uint32_t run = Least(from.run, range.end - static_cast<uint32_t>(place));
  if (from.rank == kNone) return {kPadding, run};
  if (row.rank == BATCHPLAN_ALL_RANKS) return {int64_t{from.rank} * row.cells + from.cell, run};
  return {from.rank == row.rank ? int64_t{from.cell} : kPadding, run};
}

// What is wrong with sequence `sequence`: its offsets, or the row that its tokens are in.
BATCHPLAN_HOST_DEVICE inline batchplan_status CheckMove(const Row& row,
                                                        const batchplan_sequences& sequences,
                                                        bool has_source, uint64_t narrowest,
                                                        uint32_t sequence) {
  const batchplan_status status = CheckSequence(row, sequence);
  const uint32_t length = LengthOf(row, sequence);
  if (status != BATCHPLAN_OK || !has_source || length == 0) return status;
  const uint64_t sequence_row = RowOfSequence(sequences, sequence);
  if (sequence_row >= sequences.num_rows) return BATCHPLAN_ERROR_SEQUENCE_INDEX;
  if (sequences.offsets == nullptr) {
    return length > narrowest ? BATCHPLAN_ERROR_SEQUENCE_TOO_LONG : BATCHPLAN_OK;
  }
  const bool fits = TokenOfRow(sequences, 0, sequence_row, length - 1) != kPadding;
  return fits ? BATCHPLAN_OK : BATCHPLAN_ERROR_OFFSETS;
}

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_MOVE_ARITHMETIC_H_
