// Which token of which sequence a cell of a packed row holds, and back; one text for the host
// executor and the CUDA kernels.
//
// A context parallel rank has a row of its own, made of cells: a cell has room for one token. What
// a rank holds of one sequence is its shard. The tail of the row is treated as one more sequence,
// number num_sequences, of no true tokens.
//
// The offset arrays come from the caller. CheckSequence judges them; the other functions give
// answers within their stated ranges for whatever the arrays hold, so that a kernel that has not
// seen the check's verdict yet stays in bounds.

#ifndef BATCHPLAN_KERNELS_SRC_ROW_ARITHMETIC_H_
#define BATCHPLAN_KERNELS_SRC_ROW_ARITHMETIC_H_

#include <stdint.h>

#include "batchplan/kernels/pack.h"
#include "src/host_device.h"
#include "src/layout_arithmetic.h"

namespace batchplan::kernels {

// A token or a rank that does not exist.
inline constexpr uint32_t kNone = UINT32_MAX;

BATCHPLAN_HOST_DEVICE constexpr int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
BATCHPLAN_HOST_DEVICE constexpr uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }
BATCHPLAN_HOST_DEVICE constexpr int32_t Least(int32_t a, int32_t b) { return a < b ? a : b; }

// batchplan_row after its check, with what is divided once and used often.
struct Row {
  const int32_t* cu_seqlens;
  const int32_t* cu_seqlens_padded;
  // Null where prefixes are not shared.
  const int32_t* least_shared;
  uint32_t num_sequences;
  uint32_t width;
  uint32_t context_parallel;
  // Below context_parallel, or BATCHPLAN_ALL_RANKS.
  uint32_t rank;
  // Of one rank: width / context_parallel.
  uint32_t cells;
  // Padded lengths are multiples of this.
  uint32_t divisor;
  bool zigzag;
};

constexpr batchplan_status CheckRow(const batchplan_row& row) {
  if (row.num_sequences > 0 && (row.cu_seqlens == nullptr || row.cu_seqlens_padded == nullptr)) {
    return BATCHPLAN_ERROR_NULL_POINTER;
  }
  const bool shares = row.least_shared != nullptr;
  if (const batchplan_status status = CheckOptions(row.num_sequences, row.options, shares);
      status != BATCHPLAN_OK) {
    return status;
  }
  if (row.context_parallel_rank >= row.options.context_parallel &&
      row.context_parallel_rank != BATCHPLAN_ALL_RANKS) {
    return BATCHPLAN_ERROR_CONTEXT_PARALLEL_RANK;
  }
  return BATCHPLAN_OK;
}

// `row` has passed CheckRow.
constexpr Row RowOf(const batchplan_row& row) {
  const batchplan_layout_options& options = row.options;
  // One rank holds every token in order; its cells need no chunks, which might be half a token.
  const bool zigzag = options.context_parallel > 1 && options.sharding == BATCHPLAN_SHARDING_ZIGZAG;
  return {.cu_seqlens = row.cu_seqlens,
          .cu_seqlens_padded = row.cu_seqlens_padded,
          .least_shared = row.least_shared,
          .num_sequences = row.num_sequences,
          .width = options.row_width,
          .context_parallel = options.context_parallel,
          .rank = row.context_parallel_rank,
          .cells = options.row_width / options.context_parallel,
          .divisor = static_cast<uint32_t>(ContextParallelDivisor(options)),
          .zigzag = zigzag};
}

// Cells of the packed side of a field: of the one rank, or of all of them.
BATCHPLAN_HOST_DEVICE constexpr uint32_t PackedCells(const Row& row) {
  return row.rank == BATCHPLAN_ALL_RANKS ? row.width : row.cells;
}

// The largest i of 0 .. `count` with offsets[i] <= `value`, 0 if there is none; offsets ascend.
BATCHPLAN_HOST_DEVICE inline uint32_t LastNotAbove(const int32_t* offsets, uint32_t count,
                                                   int32_t value) {
  uint32_t low = 0;
  for (uint32_t high = count; low < high;) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (offsets[middle] <= value) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Tokens of sequence `sequence` without padding; 0 for the tail, below 2^31 always.
BATCHPLAN_HOST_DEVICE inline uint32_t LengthOf(const Row& row, uint32_t sequence) {
  if (sequence >= row.num_sequences) return 0;
  const int64_t length = int64_t{row.cu_seqlens[sequence + 1]} - row.cu_seqlens[sequence];
  return length > 0 && length <= kMaxOffset ? static_cast<uint32_t>(length) : 0;
}

// The cells of a sequence, or of the tail, in each rank's row: the same cells in all. None if its
// offsets do not ascend within the row.
struct Shard {
  uint32_t begin;
  uint32_t cells;
};

BATCHPLAN_HOST_DEVICE inline Shard ShardOf(const Row& row, uint32_t sequence) {
  const bool is_tail = sequence >= row.num_sequences;
  const int32_t begin = row.num_sequences > 0 ? row.cu_seqlens_padded[sequence] : 0;
  const int32_t end =
      is_tail ? static_cast<int32_t>(row.width) : row.cu_seqlens_padded[sequence + 1];
  if (begin < 0 || end < begin || static_cast<uint32_t>(end) > row.width) return {0, 0};
  const auto padded_begin = static_cast<uint32_t>(begin);
  const auto padded_end = static_cast<uint32_t>(end);
  if (row.context_parallel == 1) return {padded_begin, padded_end - padded_begin};
  // Both are divided before they are subtracted, since each is a multiple.
  const uint32_t first_cell = padded_begin / row.context_parallel;
  return {first_cell, padded_end / row.context_parallel - first_cell};
}

// The place in cu_seqlens_padded of the sequence, or the tail, that cell `cell` of a rank belongs
// to.
BATCHPLAN_HOST_DEVICE inline int32_t PaddedPlaceOf(const Row& row, uint32_t cell) {
  // Offsets are multiples of the number of ranks; `cell` need not be.
  return static_cast<int32_t>(cell * row.context_parallel);
}

// What a cell holds: token `token` of the padded sequence. The `run` - 1 cells after it hold the
// tokens after that one, and the `before` cells before it the tokens before. kNone, with a run of
// 1, if the offsets leave the cell without a token.
struct TokenRun {
  uint32_t token;
  uint32_t run;
  uint32_t before;
};

// What cell `shard.begin + index` of `rank` holds.
BATCHPLAN_HOST_DEVICE inline TokenRun TokenOfCell(const Row& row, uint32_t rank, const Shard& shard,
                                                  uint32_t index) {
  if (index >= shard.cells) return {kNone, 1, 0};
  if (!row.zigzag) return {rank * shard.cells + index, shard.cells - index, index};
  const uint32_t chunk = shard.cells / 2;
  if (index < chunk) return {rank * chunk + index, chunk - index, index};
  const uint32_t in_chunk = index - chunk;
  return {(2 * row.context_parallel - 1 - rank) * chunk + in_chunk, shard.cells - index, in_chunk};
}

// Where a token is: in cell `cell` of rank `rank`. The `run` - 1 tokens after it are in the cells
// after that one, and the `before` tokens before it in the cells before. The rank is kNone, with a
// run of 1, if the offsets leave the token without a cell.
struct CellRun {
  uint32_t rank;
  uint32_t cell;
  uint32_t run;
  uint32_t before;
};

BATCHPLAN_HOST_DEVICE inline CellRun CellOfToken(const Row& row, const Shard& shard,
                                                 uint32_t token) {
  const uint32_t chunk = row.zigzag ? shard.cells / 2 : shard.cells;
  if (chunk == 0) return {kNone, 0, 1, 0};
  const uint32_t ordinal = row.context_parallel == 1 && token < chunk ? 0 : token / chunk;
  const uint32_t in_chunk = token - ordinal * chunk;
  const uint32_t ranks = row.context_parallel;
  const bool mirrored = row.zigzag && ordinal >= ranks;
  const uint32_t rank = mirrored ? 2 * ranks - 1 - ordinal : ordinal;
  // Below 0 wraps to above.
  if (rank >= ranks) return {kNone, 0, 1, 0};
  return {rank, shard.begin + (mirrored ? chunk : 0) + in_chunk, chunk - in_chunk, in_chunk};
}

// BATCHPLAN_ERROR_LAYOUT if the offsets of sequence `sequence` break a rule of batchplan_row.
BATCHPLAN_HOST_DEVICE inline batchplan_status CheckSequence(const Row& row, uint32_t sequence) {
  const int64_t begin = row.cu_seqlens[sequence];
  const int64_t length = row.cu_seqlens[sequence + 1] - begin;
  const int64_t padded_begin = row.cu_seqlens_padded[sequence];
  const int64_t padded_end = row.cu_seqlens_padded[sequence + 1];
  const int64_t padded = padded_end - padded_begin;
  const bool starts_at_zero = sequence > 0 || (begin == 0 && padded_begin == 0);
  const bool has_room = length >= 0 && length <= padded && padded_end <= row.width;
  return starts_at_zero && has_room && padded % row.divisor == 0 ? BATCHPLAN_OK
                                                                 : BATCHPLAN_ERROR_LAYOUT;
}

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_ROW_ARITHMETIC_H_
