#include "src/backends.h"
#include "src/host/check_sequences.h"
#include "src/host/tokens.h"
#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"
#include "src/shared_arithmetic.h"

namespace batchplan::kernels::host {
namespace {

// Fills the cells from `cell` on that hold `tokens` of the sequence at `place`.
void PackRun(const Movement& movement, const batchplan_field& field, const Tokens& copier,
             int64_t cell, uint32_t sequence, const SequencePlace& place, TokenRun tokens) {
  const bool is_tail = sequence == movement.row.num_sequences;
  if (field.content == BATCHPLAN_CONTENT_POSITION_IDS) {
    copier.Number(cell, tokens.token, tokens.run, /*counts_up=*/true);
    return;
  }
  if (field.content == BATCHPLAN_CONTENT_SEQUENCE_IDS) {
    copier.Number(cell, is_tail ? -1 : int64_t{sequence}, tokens.run, /*counts_up=*/false);
    return;
  }
  while (tokens.run > 0) {
    const auto [source, run, before] = PackSource(movement.sequences, place, field.content,
                                                  field.width, field.token_shift, tokens);
    if (source == kPadding) {
      copier.Pad(cell, run);
    } else if (field.content == BATCHPLAN_CONTENT_PER_SEQUENCE) {
      copier.Repeat(cell, source, run);
    } else {
      copier.Copy(cell, source, run);
    }
    cell += run;
    tokens = {tokens.token + run, tokens.run - run, tokens.before + run};
  }
}

// Fills the row of `rank`, which begins at cell `first_cell` of the field.
void PackRank(const Movement& movement, const batchplan_field& field, uint32_t rank,
              int64_t first_cell) {
  const Row& row = movement.row;
  const Tokens copier(field);
  for (uint32_t sequence = 0; sequence <= row.num_sequences; ++sequence) {
    const SequencePlace place = PlaceOf(row, movement.sequences, sequence);
    const Shard& shard = place.shard;
    for (uint32_t index = 0; index < shard.cells;) {
      TokenRun tokens = TokenOfCell(row, rank, shard, index);
      tokens.token += SharedOf(row, sequence);
      PackRun(movement, field, copier, first_cell + shard.begin + index, sequence, place, tokens);
      index += tokens.run;
    }
  }
}

// Fills the row of the sequence at `place`, over `row_end` tokens.
void UnpackSequence(const Movement& movement, const batchplan_field& field,
                    const SequencePlace& place, uint32_t row_end) {
  if (row_end == 0 || place.row >= movement.sequences.num_rows) return;
  const Tokens copier(field);
  const int64_t begin = FieldRowOf(movement.sequences, place, field.width).begin;
  for (uint32_t token = 0; token < row_end;) {
    const auto [source, run, before] =
        UnpackSource(movement.row, place, field.token_shift, token, row_end);
    if (source == kPadding) {
      copier.Pad(begin + token, run);
    } else {
      copier.Copy(begin + token, source, run);
    }
    token += run;
  }
}

// UnpackSequence for a row that shares prefixes.
void UnpackPath(const Movement& movement, const batchplan_field& field, uint32_t sequence,
                const SequencePlace& place, uint32_t row_end) {
  if (row_end == 0 || place.row >= movement.sequences.num_rows) return;
  const Tokens copier(field);
  const int64_t begin = FieldRowOf(movement.sequences, place, field.width).begin;
  for (uint32_t token = 0; token < row_end;) {
    const PathPiece piece = UnpackPiece(movement.row, place, sequence, token, row_end);
    if (piece.cell == kNone) {
      copier.Pad(begin + token, piece.end - token);
    } else {
      copier.Copy(begin + token, piece.cell, piece.end - token);
    }
    token = piece.end;
  }
}

// Of the sequence at `place`, where the token before each one stands in the row.
void WritePredecessors(const Movement& movement, const batchplan_field& field, uint32_t sequence,
                       const SequencePlace& place, uint32_t row_end) {
  if (row_end == 0 || place.row >= movement.sequences.num_rows) return;
  const Tokens copier(field);
  const int64_t begin = FieldRowOf(movement.sequences, place, field.width).begin;
  copier.Number(begin, -1, 1, /*counts_up=*/false);
  const uint32_t followed = place.length > 0 ? place.length - 1 : 0;
  for (uint32_t token = 0; token < followed;) {
    const PathPiece piece = UnpackPiece(movement.row, place, sequence, token, row_end);
    const uint32_t end = Least(piece.end, followed);
    copier.Number(begin + token + 1, piece.cell, end - token, /*counts_up=*/true);
    token = end;
  }
  copier.Number(begin + followed + 1, -1, row_end - followed - 1, /*counts_up=*/false);
}

// What a packed destination holds where there is no layout to go by.
void PackNothing(const Movement& movement, const batchplan_field& field) {
  const Tokens copier(field);
  const int64_t cells = PackedCells(movement.row);
  if (field.content == BATCHPLAN_CONTENT_POSITION_IDS) {
    copier.Number(0, 0, cells, /*counts_up=*/false);
  } else if (field.content == BATCHPLAN_CONTENT_SEQUENCE_IDS) {
    copier.Number(0, -1, cells, /*counts_up=*/false);
  } else {
    copier.Pad(0, cells);
  }
}

}  // namespace

batchplan_status Pack(const Movement& movement, batchplan_status* error_word) {
  const batchplan_status status = CheckSequences(movement.row, movement.sequences,
                                                 movement.has_rows, movement.narrowest, error_word);
  const Row& row = movement.row;
  for (uint32_t i = 0; i < movement.num_fields; ++i) {
    const batchplan_field& field = movement.fields[i];
    if (status != BATCHPLAN_OK) {
      PackNothing(movement, field);
      continue;
    }
    if (row.rank != BATCHPLAN_ALL_RANKS) {
      PackRank(movement, field, row.rank, 0);
      continue;
    }
    for (uint32_t rank = 0; rank < row.context_parallel; ++rank) {
      PackRank(movement, field, rank, int64_t{rank} * row.cells);
    }
  }
  return status;
}

batchplan_status Unpack(const Movement& movement, batchplan_status* error_word) {
  if (const batchplan_status status = CheckSequences(
          movement.row, movement.sequences, movement.has_rows, movement.narrowest, error_word);
      status != BATCHPLAN_OK) {
    return status;
  }
  const bool ragged = movement.sequences.offsets != nullptr;
  for (uint32_t i = 0; i < movement.num_fields; ++i) {
    const batchplan_field& field = movement.fields[i];
    for (uint32_t sequence = 0; sequence < movement.row.num_sequences; ++sequence) {
      const SequencePlace place = PlaceOf(movement.row, movement.sequences, sequence);
      const uint32_t row_end = ragged ? place.length : static_cast<uint32_t>(field.width);
      if (field.content == BATCHPLAN_CONTENT_PREDECESSORS) {
        WritePredecessors(movement, field, sequence, place, row_end);
      } else if (movement.row.least_shared != nullptr) {
        UnpackPath(movement, field, sequence, place, row_end);
      } else {
        UnpackSequence(movement, field, place, row_end);
      }
    }
  }
  return BATCHPLAN_OK;
}

}  // namespace batchplan::kernels::host
