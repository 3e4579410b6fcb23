#include "src/backends.h"
#include "src/error_word.h"
#include "src/host/tokens.h"
#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels::host {
namespace {

// Judges every sequence before anything is written.
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

// Fills the cells from `cell` on that hold `tokens` of a sequence.
void PackRun(const Movement& movement, const batchplan_field& field, const Tokens& copier,
             int64_t cell, uint32_t sequence, TokenRun tokens) {
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
    const auto [source, run] = PackSource(movement.row, movement.sequences, field.content,
                                          field.width, field.token_shift, sequence, tokens);
    if (source == kPadding) {
      copier.Pad(cell, run);
    } else if (field.content == BATCHPLAN_CONTENT_PER_SEQUENCE) {
      copier.Repeat(cell, source, run);
    } else {
      copier.Copy(cell, source, run);
    }
    cell += run;
    tokens = {tokens.token + run, tokens.run - run};
  }
}

// Fills the row of `rank`, which begins at cell `first_cell` of the field.
void PackRank(const Movement& movement, const batchplan_field& field, uint32_t rank,
              int64_t first_cell) {
  const Row& row = movement.row;
  const Tokens copier(field);
  for (uint32_t sequence = 0; sequence <= row.num_sequences; ++sequence) {
    const Shard shard = ShardOf(row, sequence);
    for (int64_t index = 0; index < shard.cells;) {
      const TokenRun tokens = TokenOfCell(row, rank, shard, index);
      PackRun(movement, field, copier, first_cell + shard.begin + index, sequence, tokens);
      index += tokens.run;
    }
  }
}

// Fills the row of sequence `sequence`, over `row_end` tokens.
void UnpackSequence(const Movement& movement, const batchplan_field& field, uint32_t sequence,
                    uint32_t row_end) {
  const uint64_t sequence_row = RowOfSequence(movement.sequences, sequence);
  if (row_end == 0 || sequence_row >= movement.sequences.num_rows) return;
  const Tokens copier(field);
  const int64_t begin = TokenOfRow(movement.sequences, field.width, sequence_row, 0);
  for (uint32_t token = 0; token < row_end;) {
    const auto [source, run] =
        UnpackSource(movement.row, field.token_shift, sequence, token, row_end);
    if (source == kPadding) {
      copier.Pad(begin + token, run);
    } else {
      copier.Copy(begin + token, source, run);
    }
    token += run;
  }
}

}  // namespace

batchplan_status Pack(const Movement& movement, batchplan_status* error_word) {
  if (const batchplan_status status = Check(movement, error_word); status != BATCHPLAN_OK) {
    return status;
  }
  const Row& row = movement.row;
  for (uint32_t i = 0; i < movement.num_fields; ++i) {
    const batchplan_field& field = movement.fields[i];
    if (row.rank != BATCHPLAN_ALL_RANKS) {
      PackRank(movement, field, row.rank, 0);
      continue;
    }
    for (uint32_t rank = 0; rank < row.context_parallel; ++rank) {
      PackRank(movement, field, rank, int64_t{rank} * row.cells);
    }
  }
  return BATCHPLAN_OK;
}

batchplan_status Unpack(const Movement& movement, batchplan_status* error_word) {
  if (const batchplan_status status = Check(movement, error_word); status != BATCHPLAN_OK) {
    return status;
  }
  for (uint32_t i = 0; i < movement.num_fields; ++i) {
    const batchplan_field& field = movement.fields[i];
    for (uint32_t sequence = 0; sequence < movement.row.num_sequences; ++sequence) {
      const bool ragged = movement.sequences.offsets != nullptr;
      const uint32_t row_end =
          ragged ? LengthOf(movement.row, sequence) : static_cast<uint32_t>(field.width);
      UnpackSequence(movement, field, sequence, row_end);
    }
  }
  return BATCHPLAN_OK;
}

}  // namespace batchplan::kernels::host
