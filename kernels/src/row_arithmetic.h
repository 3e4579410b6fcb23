// Which token of which sequence a slot of a rank's packed row holds, and back; one text for the
// host executor and the CUDA kernels.
//
// A slot is a place for one token in the row of one context parallel rank. The tail of the row is
// treated as one more sequence, number num_sequences, of no true tokens.
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

// batchplan_row after its check, with what is divided once and used often.
struct Row {
  const int32_t* cu_seqlens;
  const int32_t* cu_seqlens_padded;
  uint32_t num_sequences;
  uint32_t width;
  uint32_t context_parallel;
  // Below context_parallel, or BATCHPLAN_ALL_RANKS.
  uint32_t rank;
  // Of one rank: width / context_parallel.
  uint32_t slots;
  // What padded lengths divide by.
  uint32_t divisor;
  bool zigzag;
};

constexpr batchplan_status CheckRow(const batchplan_row& row) {
  if (row.num_sequences > 0 && (row.cu_seqlens == nullptr || row.cu_seqlens_padded == nullptr)) {
    return BATCHPLAN_ERROR_NULL_POINTER;
  }
  if (const batchplan_status status = CheckOptions(row.num_sequences, row.options);
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
  // One rank holds every token in order; its slots need no chunks, which might be half a token.
  const bool zigzag = options.context_parallel > 1 && options.sharding == BATCHPLAN_SHARDING_ZIGZAG;
  return {.cu_seqlens = row.cu_seqlens,
          .cu_seqlens_padded = row.cu_seqlens_padded,
          .num_sequences = row.num_sequences,
          .width = options.row_width,
          .context_parallel = options.context_parallel,
          .rank = row.context_parallel_rank,
          .slots = options.row_width / options.context_parallel,
          .divisor = static_cast<uint32_t>(ContextParallelDivisor(options)),
          .zigzag = zigzag};
}

// Slots of the packed side of a field: of the one rank, or of all of them.
BATCHPLAN_HOST_DEVICE constexpr uint32_t PackedSlots(const Row& row) {
  return row.rank == BATCHPLAN_ALL_RANKS ? row.width : row.slots;
}

// The largest i of 0 .. `count` with offsets[i] <= `value`, 0 if there is none; offsets ascend.
BATCHPLAN_HOST_DEVICE inline uint32_t LastNotAbove(const int32_t* offsets, uint32_t count,
                                                   int64_t value) {
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

// The part of a sequence, or the tail, that each rank holds.
struct Share {
  // The first slot.
  int64_t begin;
  int64_t slots;
};

BATCHPLAN_HOST_DEVICE inline Share ShareOf(const Row& row, uint32_t sequence) {
  const bool is_tail = sequence >= row.num_sequences;
  const int32_t begin = row.num_sequences > 0 ? row.cu_seqlens_padded[sequence] : 0;
  const int32_t end =
      is_tail ? static_cast<int32_t>(row.width) : row.cu_seqlens_padded[sequence + 1];
  // Each divides, so that the difference may be taken afterwards; 32 bits, because a device divides
  // them several times faster than 64.
  const auto ranks = static_cast<int32_t>(row.context_parallel);
  const int64_t first_slot = begin / ranks;
  return {first_slot, end / ranks - first_slot};
}

// The sequence, or the tail, whose share slot `slot` of a rank belongs to.
BATCHPLAN_HOST_DEVICE inline uint32_t SequenceOfSlot(const Row& row, uint32_t slot) {
  // Offsets divide by the ranks, so that the slots need not.
  return LastNotAbove(row.cu_seqlens_padded, row.num_sequences,
                      int64_t{slot} * row.context_parallel);
}

// Tokens in slots: `token` of the padded sequence and the `run` - 1 after it follow one another in
// the row of a rank. kNone, with a run of 1, if the offsets leave the slot without a token.
struct TokenRun {
  uint32_t token;
  uint32_t run;
};

// What slot `share.begin + index` of `rank` holds.
BATCHPLAN_HOST_DEVICE inline TokenRun TokenOfSlot(const Row& row, uint32_t rank, const Share& share,
                                                  int64_t index) {
  if (index < 0 || index >= share.slots) return {kNone, 1};
  int64_t token = rank * share.slots + index;
  int64_t run = share.slots - index;
  if (row.zigzag) {
    const int64_t chunk = share.slots / 2;
    if (index < chunk) {
      token = rank * chunk + index;
      run = chunk - index;
    } else {
      token = (2 * int64_t{row.context_parallel} - 1 - rank) * chunk + (index - chunk);
    }
  }
  if (token > kMaxOffset) return {kNone, 1};
  return {static_cast<uint32_t>(token), static_cast<uint32_t>(run)};
}

// Where a token is: a slot of a rank; the `run` - 1 tokens after it follow it there. The rank is
// kNone, with a run of 1, if the offsets leave the token without a slot.
struct SlotRun {
  uint32_t rank;
  uint32_t slot;
  uint32_t run;
};

BATCHPLAN_HOST_DEVICE inline SlotRun SlotOfToken(const Row& row, const Share& share,
                                                 uint32_t token) {
  const int64_t chunk = row.zigzag ? share.slots / 2 : share.slots;
  if (chunk <= 0 || chunk > kMaxOffset) return {kNone, 0, 1};
  const int64_t ordinal = token / static_cast<uint32_t>(chunk);
  const int64_t in_chunk = token - ordinal * chunk;
  const int64_t ranks = row.context_parallel;
  const bool mirrored = row.zigzag && ordinal >= ranks;
  const int64_t rank = mirrored ? 2 * ranks - 1 - ordinal : ordinal;
  const int64_t slot = share.begin + (mirrored ? chunk : 0) + in_chunk;
  if (rank < 0 || rank >= ranks || slot < 0 || slot >= row.slots) return {kNone, 0, 1};
  return {static_cast<uint32_t>(rank), static_cast<uint32_t>(slot),
          static_cast<uint32_t>(chunk - in_chunk)};
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
