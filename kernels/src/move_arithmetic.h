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
#include "src/shared_arithmetic.h"

namespace batchplan::kernels {

// A call's arguments, checked; of one form for packing and unpacking.
struct Movement {
  Row row;
  // All zero if no field has rows.
  batchplan_sequences sequences;
  bool has_rows;
  // The least width of the padded fields.
  uint64_t narrowest;
  const batchplan_field* fields;
  uint32_t num_fields;
};

// No token: padding.
inline constexpr int64_t kPadding = -1;

constexpr bool HasSource(const batchplan_field& field) {
  return field.content == BATCHPLAN_CONTENT_TOKENS ||
         field.content == BATCHPLAN_CONTENT_PER_SEQUENCE;
}

// Whether `field` has a place for each token of the sequences.
constexpr bool HasTokenRows(const batchplan_field& field) {
  return field.content == BATCHPLAN_CONTENT_TOKENS ||
         field.content == BATCHPLAN_CONTENT_PREDECESSORS;
}

// Whether `field` has rows of the sequences, and so needs batchplan_sequences.
constexpr bool HasRows(const batchplan_field& field) {
  return HasSource(field) || HasTokenRows(field);
}

// The status of one field's descriptor, to pack or to unpack. `shares` says whether the row shares
// prefixes.
constexpr batchplan_status CheckField(const batchplan_field& field, bool ragged, bool shares) {
  const bool is_ids = field.content == BATCHPLAN_CONTENT_POSITION_IDS ||
                      field.content == BATCHPLAN_CONTENT_SEQUENCE_IDS ||
                      field.content == BATCHPLAN_CONTENT_PREDECESSORS;
  if (!is_ids && !HasSource(field)) return BATCHPLAN_ERROR_CONTENT;
  if (!shares && field.content == BATCHPLAN_CONTENT_PREDECESSORS) return BATCHPLAN_ERROR_CONTENT;
  if (shares && (field.content == BATCHPLAN_CONTENT_PER_SEQUENCE ||
                 (field.content == BATCHPLAN_CONTENT_TOKENS && field.token_shift != 0))) {
    return BATCHPLAN_ERROR_SHARED_PREFIXES;
  }
  const uint32_t size = field.element_size;
  const bool is_power_of_two = size != 0 && (size & (size - 1)) == 0;
  if (!is_power_of_two || size > 16 || (is_ids && size != 4 && size != 8)) {
    return BATCHPLAN_ERROR_ELEMENT_SIZE;
  }
  if (field.elements_per_token < 1 || field.elements_per_token > BATCHPLAN_MAX_TOKEN_BYTES / size ||
      (is_ids && field.elements_per_token != 1)) {
    return BATCHPLAN_ERROR_TOKEN_SIZE;
  }
  if (!ragged && HasTokenRows(field) && field.width > kMaxOffset) {
    return BATCHPLAN_ERROR_WIDTH;
  }
  return BATCHPLAN_OK;
}

// The tokens of a sequence that have a partner `shift` tokens away: [begin, end).
struct TokenRange {
  uint32_t begin;
  uint32_t end;
};

BATCHPLAN_HOST_DEVICE constexpr TokenRange WithPartner(uint32_t length, int64_t shift) {
  if (shift == 0) return {0, length};
  const int64_t begin = shift < 0 ? -shift : 0;
  const int64_t end = shift > 0 ? length - shift : length;
  if (begin >= end) return {0, 0};
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

// What the arrays say of a sequence, read once for all fields.
struct SequencePlace {
  // Tokens without padding; 0 for the tail.
  uint32_t length;
  Shard shard;
  // Its row on the unpacked side; none if this is num_rows or more.
  uint64_t row;
  // Of ragged fields, where the row begins and how many of the sequence's tokens it has: 0 if its
  // offsets are wrong.
  int64_t begin;
  uint32_t tokens;
};

// `sequence` may be the tail, num_sequences.
BATCHPLAN_HOST_DEVICE inline SequencePlace PlaceOf(const Row& row,
                                                   const batchplan_sequences& sequences,
                                                   uint32_t sequence) {
  SequencePlace place{};
  place.shard = ShardOf(row, sequence);
  place.row = sequences.num_rows;
  if (sequence >= row.num_sequences) return place;
  place.length = LengthOf(row, sequence);
  place.row = sequences.sequence_index != nullptr ? sequences.sequence_index[sequence] : sequence;
  if (sequences.offsets == nullptr || place.row >= sequences.num_rows) return place;
  place.begin = sequences.offsets[place.row];
  const int64_t end = sequences.offsets[place.row + 1];
  const bool inside =
      place.begin >= 0 && end >= place.begin && static_cast<uint64_t>(end) <= sequences.num_tokens;
  if (inside) place.tokens = static_cast<uint32_t>(Least(end - place.begin, int64_t{place.length}));
  return place;
}

// A sequence's row in one field: its first token, and how many of the sequence's tokens it has.
struct FieldRow {
  int64_t begin;
  uint32_t tokens;
};

// Of a padded field of `width`, or of any ragged one.
BATCHPLAN_HOST_DEVICE inline FieldRow FieldRowOf(const batchplan_sequences& sequences,
                                                 const SequencePlace& place, uint64_t width) {
  if (place.row >= sequences.num_rows) return {0, 0};
  if (sequences.offsets != nullptr) return {place.begin, place.tokens};
  return {static_cast<int64_t>(place.row * width),
          static_cast<uint32_t>(Least(static_cast<int64_t>(width), int64_t{place.length}))};
}

// Where a destination's token comes from: token `source` of the other side, kPadding if from
// nowhere. The `run` - 1 tokens after it come from the tokens after that one, and the `before`
// tokens before it from the tokens before, or all of them from nowhere as well.
struct SourceRun {
  int64_t source;
  uint32_t run;
  uint32_t before;
};

// Packing: which token of the source the cells of `tokens` get; of per-sequence content, which row.
BATCHPLAN_HOST_DEVICE inline SourceRun PackSource(const batchplan_sequences& sequences,
                                                  const SequencePlace& place,
                                                  batchplan_content content, uint64_t width,
                                                  int32_t shift, const TokenRun& tokens) {
  const auto [token, run, before] = tokens;
  const bool per_sequence = content == BATCHPLAN_CONTENT_PER_SEQUENCE;
  const bool has_row = place.row < sequences.num_rows;
  const FieldRow field_row = FieldRowOf(sequences, place, width);
  const TokenRange range = per_sequence ? TokenRange{0, has_row ? place.length : 0}
                                        : WithPartner(field_row.tokens, shift);
  if (token < range.begin) return {kPadding, Least(run, range.begin - token), Least(before, token)};
  if (token >= range.end) return {kPadding, run, Least(before, token - range.end)};
  const int64_t source =
      per_sequence ? static_cast<int64_t>(place.row) : field_row.begin + (int64_t{token} + shift);
  return {source, Least(run, range.end - token), Least(before, token - range.begin)};
}

// Unpacking: which cell of the packed side the tokens from `token` to the end of the sequence's row
// at `row_end` come from.
BATCHPLAN_HOST_DEVICE inline SourceRun UnpackSource(const Row& row, const SequencePlace& place,
                                                    int32_t shift, uint32_t token,
                                                    uint32_t row_end) {
  // Token t came from the place of token t - shift.
  const TokenRange range = WithPartner(place.length, -int64_t{shift});
  if (token < range.begin) return {kPadding, range.begin - token, token};
  if (token >= range.end) return {kPadding, row_end - token, token - range.end};
  const auto cell_of = static_cast<uint32_t>(int64_t{token} - shift);
  const CellRun from = CellOfToken(row, place.shard, cell_of);
  const uint32_t run = Least(from.run, range.end - token);
  const uint32_t before = Least(from.before, token - range.begin);
  if (from.rank == kNone) return {kPadding, run, before};
  if (row.rank == BATCHPLAN_ALL_RANKS) {
    return {int64_t{from.rank} * row.cells + from.cell, run, before};
  }
  return {from.rank == row.rank ? int64_t{from.cell} : kPadding, run, before};
}

// Unpacking a row that shares prefixes: the piece of the row that holds token `token` of sequence
// `sequence`. Tokens from the sequence's end to `row_end`, the end of its unpacked row, have no
// cell.
BATCHPLAN_HOST_DEVICE inline PathPiece UnpackPiece(const Row& row, const SequencePlace& place,
                                                   uint32_t sequence, uint32_t token,
                                                   uint32_t row_end) {
  if (token >= place.length) return {kNone, place.length, row_end};
  PathPiece piece = PieceOf(row, sequence, token);
  piece.end = Least(piece.end, place.length);
  return piece;
}

// What is wrong with sequence `sequence`: its offsets, or the row that its tokens are in. kShares:
// the row shares prefixes.
template <bool kShares>
BATCHPLAN_HOST_DEVICE batchplan_status CheckMove(const Row& row,
                                                 const batchplan_sequences& sequences,
                                                 bool has_rows, uint64_t narrowest,
                                                 uint32_t sequence) {
  const batchplan_status status =
      kShares ? CheckSharedSequence(row, sequence) : CheckSequence(row, sequence);
  const SequencePlace place = PlaceOf(row, sequences, sequence);
  if (status != BATCHPLAN_OK || !has_rows || place.length == 0) return status;
  if (place.row >= sequences.num_rows) return BATCHPLAN_ERROR_SEQUENCE_INDEX;
  if (sequences.offsets == nullptr) {
    return place.length > narrowest ? BATCHPLAN_ERROR_SEQUENCE_TOO_LONG : BATCHPLAN_OK;
  }
  return place.tokens == place.length ? BATCHPLAN_OK : BATCHPLAN_ERROR_OFFSETS;
}

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_MOVE_ARITHMETIC_H_
