// The index arithmetic of the packed layout, one text for the host executor and the CUDA kernel.
//
// Two passes over the lengths. The first adds up a LengthSummary and asks CheckSummary whether the
// layout exists; only then does the second scan Offsets, which therefore can't overflow. Both
// additions are associative, so an executor may group them as suits it and the result is the same.
//
// Pure functions on values; safe anywhere.

#ifndef BATCHPLAN_KERNELS_SRC_LAYOUT_ARITHMETIC_H_
#define BATCHPLAN_KERNELS_SRC_LAYOUT_ARITHMETIC_H_

#include <stdint.h>

#include "batchplan/kernels/layout.h"
#include "src/host_device.h"

namespace batchplan::kernels {

inline constexpr uint32_t kMaxOffset = INT32_MAX;

// `length` with its padding; below 2^33 for any arguments.
BATCHPLAN_HOST_DEVICE constexpr uint64_t PaddedLength(uint32_t length,
                                                      const batchplan_layout_options& options) {
  if (options.sequence_width > 0) return options.sequence_width;
  const uint32_t multiple = options.length_multiple;
  return (uint64_t{length} + multiple - 1) / multiple * multiple;
}

// The number that padded lengths and the row's width must be multiples of, so that all
// context-parallel ranks get equal shards: a shard is one chunk of the sequence, or two, from its
// front and from its back.
constexpr uint64_t ContextParallelDivisor(const batchplan_layout_options& options) {
  if (options.context_parallel == 1) return 1;
  const uint64_t chunks = options.sharding == BATCHPLAN_SHARDING_ZIGZAG ? 2 : 1;
  return chunks * options.context_parallel;
}

// The status of the arguments that the host can judge without reading a length. `shares` says
// whether sequences share prefixes.
constexpr batchplan_status CheckOptions(uint32_t num_sequences,
                                        const batchplan_layout_options& options, bool shares) {
  if (options.context_parallel < 1 || options.context_parallel > BATCHPLAN_MAX_CONTEXT_PARALLEL) {
    return BATCHPLAN_ERROR_CONTEXT_PARALLEL;
  }
  if (options.sharding != BATCHPLAN_SHARDING_ZIGZAG &&
      options.sharding != BATCHPLAN_SHARDING_CONTIGUOUS) {
    return BATCHPLAN_ERROR_SHARDING;
  }
  if (shares && options.context_parallel > 1) return BATCHPLAN_ERROR_SHARDING;
  const uint64_t divisor = ContextParallelDivisor(options);
  if (options.length_multiple < 1 || options.length_multiple % divisor != 0) {
    return BATCHPLAN_ERROR_LENGTH_MULTIPLE;
  }
  if (options.row_width % divisor != 0) return BATCHPLAN_ERROR_ROW_WIDTH;
  if (options.sequence_width % divisor != 0 || (shares && options.sequence_width > 0)) {
    return BATCHPLAN_ERROR_SEQUENCE_WIDTH;
  }
  // The bound on num_sequences also keeps LengthSummary::total_padded below 2^31 * 2^33.
  if (options.row_width > kMaxOffset || num_sequences >= kMaxOffset) {
    return BATCHPLAN_ERROR_OVERFLOW;
  }
  return BATCHPLAN_OK;
}

// The caller's arrays. `shared` is null where prefixes are not shared.
struct SequenceLengths {
  const uint32_t* lengths;
  const uint32_t* shared;
  uint32_t num_sequences;
};

// Tokens of the row that sequence `sequence` fills, below 2^33; in a layout that exists, it shares
// at most its length.
BATCHPLAN_HOST_DEVICE inline uint64_t RoomOf(const SequenceLengths& of, uint32_t sequence,
                                             const batchplan_layout_options& options) {
  const uint32_t length = of.lengths[sequence];
  if (of.shared == nullptr) return PaddedLength(length, options);
  return length - (of.shared[sequence] < length ? of.shared[sequence] : length);
}

// What the first pass learns.
struct LengthSummary {
  uint64_t total;
  // Tokens of the row that sequences fill.
  uint64_t total_room;
  uint32_t max_seqlen;
  uint64_t max_room;
  bool shares_too_much;
};

BATCHPLAN_HOST_DEVICE inline LengthSummary SummaryOf(const SequenceLengths& of, uint32_t sequence,
                                                     const batchplan_layout_options& options) {
  const uint32_t length = of.lengths[sequence];
  const uint64_t room = RoomOf(of, sequence, options);
  bool shares_too_much = false;
  if (of.shared != nullptr) {
    const uint32_t before = sequence > 0 ? of.lengths[sequence - 1] : 0;
    shares_too_much = of.shared[sequence] > (before < length ? before : length);
  }
  return {length, room, length, room, shares_too_much};
}

BATCHPLAN_HOST_DEVICE constexpr LengthSummary operator+(const LengthSummary& a,
                                                        const LengthSummary& b) {
  return {a.total + b.total, a.total_room + b.total_room,
          a.max_seqlen > b.max_seqlen ? a.max_seqlen : b.max_seqlen,
          a.max_room > b.max_room ? a.max_room : b.max_room,
          a.shares_too_much || b.shares_too_much};
}

BATCHPLAN_HOST_DEVICE constexpr batchplan_status CheckSummary(
    const LengthSummary& summary, const batchplan_layout_options& options, bool shares) {
  if (summary.shares_too_much) return BATCHPLAN_ERROR_SHARED_TOKENS;
  if (summary.total_room > kMaxOffset || (shares && summary.total > kMaxOffset)) {
    return BATCHPLAN_ERROR_OVERFLOW;
  }
  if (options.sequence_width > 0 && summary.max_seqlen > options.sequence_width) {
    return BATCHPLAN_ERROR_SEQUENCE_TOO_LONG;
  }
  if (summary.total_room > options.row_width) return BATCHPLAN_ERROR_ROW_TOO_NARROW;
  return BATCHPLAN_OK;
}

// What the second pass scans: where a sequence begins, of the sequences and in the row.
struct Offsets {
  int32_t seqlens;
  int32_t seqlens_padded;
};

// Valid once CheckSummary has said BATCHPLAN_OK.
BATCHPLAN_HOST_DEVICE inline Offsets OffsetsOf(const SequenceLengths& of, uint32_t sequence,
                                               const batchplan_layout_options& options) {
  return {static_cast<int32_t>(of.lengths[sequence]),
          static_cast<int32_t>(RoomOf(of, sequence, options))};
}

BATCHPLAN_HOST_DEVICE constexpr Offsets operator+(const Offsets& a, const Offsets& b) {
  return {a.seqlens + b.seqlens, a.seqlens_padded + b.seqlens_padded};
}

// Writes entry `index` of the offset arrays.
BATCHPLAN_HOST_DEVICE inline void WriteOffsets(const batchplan_packed_layout& layout,
                                               uint32_t index, const Offsets& offsets,
                                               uint32_t context_parallel, bool shares) {
  if (layout.cu_seqlens != nullptr) layout.cu_seqlens[index] = offsets.seqlens;
  if (layout.cu_seqlens_padded != nullptr) layout.cu_seqlens_padded[index] = offsets.seqlens_padded;
  if (layout.cu_seqlens_padded_per_rank != nullptr) {
    layout.cu_seqlens_padded_per_rank[index] =
        offsets.seqlens_padded / static_cast<int32_t>(context_parallel);
  }
  if (layout.cu_new != nullptr) {
    layout.cu_new[index] = shares ? offsets.seqlens_padded : offsets.seqlens;
  }
}

// Writes the two maxima of a layout that exists, or zeros.
BATCHPLAN_HOST_DEVICE inline void WriteMaxima(const batchplan_packed_layout& layout,
                                              const LengthSummary& summary, bool exists) {
  if (layout.max_seqlen != nullptr) {
    *layout.max_seqlen = exists ? static_cast<int32_t>(summary.max_seqlen) : 0;
  }
  if (layout.max_seqlen_padded != nullptr) {
    *layout.max_seqlen_padded = exists ? static_cast<int32_t>(summary.max_room) : 0;
  }
}

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_LAYOUT_ARITHMETIC_H_
