#include "src/backends.h"
#include "src/error_word.h"
#include "src/host/tokens.h"
#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels::host {
namespace {

// Judges every sequence before anything is moved.
batchplan_status Check(const Movement& movement, batchplan_status* error_word) {
  if (HoldsError(error_word)) return *error_word;
  for (uint32_t sequence = 0; sequence < movement.row.num_sequences; ++sequence) {
    if (const batchplan_status status = CheckMove(
            movement.row, movement.sequences, movement.has_source, movement.narrowest, sequence);
        status != BATCHPLAN_OK) {
      ReportError(error_word, status);
      return status;
    }
  }
  return BATCHPLAN_OK;
}

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
      const TokenRun tokens = TokenOfCell(row, rank, shard, index);
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
  const batchplan_status status = Check(movement, error_word);
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
  if (const batchplan_status status = Check(movement, error_word); status != BATCHPLAN_OK) {
    return status;
  }
  const bool ragged = movement.sequences.offsets != nullptr;
  for (uint32_t i = 0; i < movement.num_fields; ++i) {
    const batchplan_field& field = movement.fields[i];
    for (uint32_t sequence = 0; sequence < movement.row.num_sequences; ++sequence) {
      const SequencePlace place = PlaceOf(movement.row, movement.sequences, sequence);
      const uint32_t row_end = ragged ? place.length : static_cast<uint32_t>(field.width);
      UnpackSequence(movement, field, place, row_end);
    }
  }
  return BATCHPLAN_OK;
}

}  // namespace batchplan::kernels::host
