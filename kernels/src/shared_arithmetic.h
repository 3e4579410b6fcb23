// Which cells of a row hold the tokens of a sequence that shares prefixes with those before it, one
// text for the host executor and the CUDA kernels.
//
// Token t of sequence k was laid by the last sequence up to k that shares at most t tokens with the
// one before it. That one is found in a Fenwick tree of least_shared, with minima for sums (P. M.
// Fenwick, A New Data Structure for Cumulative Frequency Tables, 1994), in steps that grow with the
// square of the logarithm of the number of sequences at most. Where nothing is shared, every
// sequence is laid by itself.
//
// As in row_arithmetic.h, answers stay within the row for whatever the arrays hold.

#ifndef BATCHPLAN_KERNELS_SRC_SHARED_ARITHMETIC_H_
#define BATCHPLAN_KERNELS_SRC_SHARED_ARITHMETIC_H_

#include <stdint.h>

#include "src/host_device.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels {

// The row of a layout that is being written, on all its ranks.
BATCHPLAN_HOST_DEVICE inline Row WholeRow(const batchplan_packed_layout& layout,
                                          const SequenceLengths& sequences,
                                          const batchplan_layout_options& options) {
  Row row{};
  row.cu_seqlens = layout.cu_seqlens;
  row.cu_seqlens_padded = layout.cu_seqlens_padded;
  row.least_shared = sequences.shared != nullptr ? layout.least_shared : nullptr;
  row.num_sequences = sequences.num_sequences;
  row.width = options.row_width;
  row.context_parallel = 1;
  return row;
}

// The largest power of two that divides `i`, which is above 0: the number of sequences whose least
// value entry i - 1 of least_shared holds.
BATCHPLAN_HOST_DEVICE constexpr uint32_t BlockOf(uint32_t i) { return i & (~i + 1); }

// Entry `i` of least_shared in a layout that exists, or does not. Reads entries of smaller blocks,
// which are before it.
BATCHPLAN_HOST_DEVICE inline int32_t LeastSharedOf(const SequenceLengths& sequences, bool exists,
                                                   const int32_t* least_shared, uint32_t i) {
  if (!exists || sequences.shared == nullptr) return 0;
  auto least = static_cast<int32_t>(sequences.shared[i]);
  for (uint32_t block = 1; block < BlockOf(i + 1); block *= 2) {
    least = Least(least, least_shared[i - block]);
  }
  return least;
}

// How many first tokens of a sequence earlier sequences laid; below 2^31. 0 for the tail.
BATCHPLAN_HOST_DEVICE inline uint32_t SharedOf(const Row& row, uint32_t sequence) {
  if (row.least_shared == nullptr || sequence >= row.num_sequences) return 0;
  const uint32_t length = LengthOf(row, sequence);
  return length - Least(length, ShardOf(row, sequence).cells);
}

// Tokens begin .. end - 1 of a sequence stand in as many cells, from `cell` on. The cell is kNone
// if the arrays leave the token without one.
struct PathPiece {
  uint32_t cell;
  uint32_t begin;
  uint32_t end;
};

// The piece that holds token `token` of sequence `sequence`. Of the sequence's tokens, it has all
// that the same sequence laid.
BATCHPLAN_HOST_DEVICE inline PathPiece PieceOf(const Row& row, uint32_t sequence, uint32_t token) {
  // The least shared count of the sequences passed so far: one of them laid the tokens from there
  // on.
  uint32_t end = kNone;
  // Sequences behind number `last`, counted from 1, share more than `token`.
  uint32_t last = sequence + 1;
  while (last > 0) {
    if (row.least_shared != nullptr) {
      const int64_t least = row.least_shared[last - 1];
      if (least > token) {
        end = Least(end, static_cast<uint32_t>(least));
        last -= BlockOf(last);
        continue;
      }
    }
    const uint32_t shared = SharedOf(row, last - 1);
    if (shared <= token) {
      const Shard shard = ShardOf(row, last - 1);
      end = Least(end, shared + shard.cells);
      if (token >= end) break;
      return {shard.begin, shared, end};
    }
    end = Least(end, shared);
    --last;
  }
  return {kNone, token, token + 1};
}

// As CheckSequence, in a row that shares prefixes.
BATCHPLAN_HOST_DEVICE inline batchplan_status CheckSharedSequence(const Row& row,
                                                                  uint32_t sequence) {
  const bool is_first = sequence == 0;
  const int64_t begin = row.cu_seqlens[sequence];
  const int64_t length = row.cu_seqlens[sequence + 1] - begin;
  const int64_t before = is_first ? 0 : begin - row.cu_seqlens[sequence - 1];
  const int64_t row_begin = row.cu_seqlens_padded[sequence];
  const int64_t row_end = row.cu_seqlens_padded[sequence + 1];
  const int64_t shared = length - (row_end - row_begin);
  const bool starts_at_zero = !is_first || (begin == 0 && row_begin == 0);
  const bool is_shared = shared >= 0 && shared <= before && row_end >= row_begin;
  int64_t least = shared;
  for (uint32_t block = 1; block < BlockOf(sequence + 1); block *= 2) {
    least = Least(least, int64_t{row.least_shared[sequence - block]});
  }
  return starts_at_zero && is_shared && row_end <= row.width && row.least_shared[sequence] == least
             ? BATCHPLAN_OK
             : BATCHPLAN_ERROR_LAYOUT;
}

// Calls fill(cell, count) for the cells of all tokens whose last sequence is `sequence`: those that
// it does not share with the one behind it. Over all sequences, every cell but the tail's is filled
// once.
template <typename Fill>
BATCHPLAN_HOST_DEVICE void ForEachClosedBy(const Row& row, uint32_t sequence, const Fill& fill) {
  const uint32_t open = SharedOf(row, sequence + 1);
  uint32_t end = SharedOf(row, sequence) + ShardOf(row, sequence).cells;
  while (end > open) {
    const PathPiece piece = PieceOf(row, sequence, end - 1);
    if (piece.cell == kNone) return;
    const uint32_t begin = piece.begin > open ? piece.begin : open;
    fill(piece.cell + (begin - piece.begin), end - begin);
    end = begin;
  }
}

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_SHARED_ARITHMETIC_H_
