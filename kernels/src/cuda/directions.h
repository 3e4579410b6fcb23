// Which token of the source a token of the destination gets: packing and unpacking.
//
// A direction has three steps. Locate looks up a token's sequence, once for all fields of a group;
// every thread of a warp must call it, fastest with tokens that ascend from thread to thread.
// Advance goes on to a later token if it belongs to the same run. MoveOf returns the token's source
// and destination in the fields of one way.

#ifndef BATCHPLAN_KERNELS_SRC_CUDA_DIRECTIONS_H_
#define BATCHPLAN_KERNELS_SRC_CUDA_DIRECTIONS_H_

#include <cuda_runtime.h>
#include <stdint.h>

#include "src/cuda/move_tasks.h"
#include "src/cuda/warp.h"
#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels::cuda {

// A destination that no token goes to.
inline constexpr int64_t kNowhere = -1;

// Token `source`, or kPadding, goes to token `destination`, or kNowhere. So do the `run` - 1 tokens
// after it to those after that one, and the `before` tokens before it to those before.
struct TokenMove {
  int64_t source;
  int64_t destination;
  uint32_t run;
  uint32_t before;
};

// A number that goes to token `destination`, or kNowhere.
struct TokenId {
  int64_t id;
  int64_t destination;
};

struct PackTokens {
  static constexpr bool kShares = false;
  // While the error word holds an error there is no layout: every token is padding.
  static constexpr bool kPadsOnError = true;
  static constexpr bool kHasIds = true;

  struct Located {
    SequencePlace place;
    TokenRun token;
    uint32_t sequence;
    uint32_t cell;
  };

  // What cell `index` of the destination holds.
  static __device__ Located Locate(const Tasks& tasks, const FieldGroup& /*group*/, int64_t index) {
    const Row& row = tasks.row;
    Located located{};
    located.cell = static_cast<uint32_t>(index);
    uint32_t in_rank = located.cell;
    uint32_t rank = row.rank;
    if (rank == BATCHPLAN_ALL_RANKS) {
      rank = located.cell / row.cells;
      in_rank = located.cell - rank * row.cells;
    }
    located.sequence =
        LastNotAboveOfEach(row.cu_seqlens_padded, row.num_sequences, PaddedPlaceOf(row, in_rank));
    located.place = PlaceOf(row, tasks.sequences, located.sequence);
    const Shard& shard = located.place.shard;
    located.token = TokenOfCell(row, rank, shard, in_rank - shard.begin);
    return located;
  }

  static __device__ TokenMove MoveOf(const Tasks& tasks, const FieldWay& way,
                                     const Located& located) {
    const SourceRun from = PackSource(tasks.sequences, located.place, way.content, way.width,
                                      way.token_shift, located.token);
    return {from.source, located.cell, from.run, from.before};
  }

  static __device__ bool Advance(Located& located, uint32_t by) {
    TokenRun& token = located.token;
    if (by >= token.run) return false;
    token = {token.token + by, token.run - by, token.before + by};
    located.cell += by;
    return true;
  }

  static __device__ bool IsIds(batchplan_content content) {
    return content == BATCHPLAN_CONTENT_POSITION_IDS || content == BATCHPLAN_CONTENT_SEQUENCE_IDS;
  }

  static __device__ TokenId IdOf(const Tasks& tasks, const FieldWay& way, const Located& located,
                                 bool holds_error) {
    if (way.content == BATCHPLAN_CONTENT_POSITION_IDS) {
      // Indices made of it stay in bounds also if offsets leave the cell without a token.
      const bool has_token = !holds_error && located.token.token != kNone;
      return {has_token ? located.token.token : 0, located.cell};
    }
    const bool has_sequence = !holds_error && located.sequence < tasks.row.num_sequences;
    return {has_sequence ? int64_t{located.sequence} : -1, located.cell};
  }
};

// Of a row that shares prefixes.
struct PackShared : PackTokens {
  static constexpr bool kShares = true;

  static __device__ Located Locate(const Tasks& tasks, const FieldGroup& group, int64_t index) {
    Located located = PackTokens::Locate(tasks, group, index);
    if (located.token.token != kNone) located.token.token += SharedOf(tasks.row, located.sequence);
    return located;
  }
};

struct UnpackTokens {
  static constexpr bool kShares = false;
  // A failed layout must not overwrite what the rows hold.
  static constexpr bool kPadsOnError = false;
  static constexpr bool kHasIds = false;

  struct Located {
    SequencePlace place;
    uint32_t sequence;
    uint32_t token;
    // Tokens of the row that are written.
    uint32_t row_end;
  };

  // Padded rows: token `index` of the sequences' rows, end to end. Ragged ones: true token `index`
  // of the micro-batch, whose number is not known on the host, only that they fit into the row.
  static __device__ Located Locate(const Tasks& tasks, const FieldGroup& group, int64_t index) {
    const Row& row = tasks.row;
    Located located{};
    if (tasks.sequences.offsets == nullptr) {
      const int64_t sequence = WholeQuotient(index, group.row_width);
      located.sequence = static_cast<uint32_t>(sequence);
      located.place = PlaceOf(row, tasks.sequences, located.sequence);
      located.token =
          static_cast<uint32_t>(index - sequence * static_cast<int64_t>(group.row_width));
      located.row_end = static_cast<uint32_t>(group.row_width);
    } else {
      located.sequence =
          LastNotAboveOfEach(row.cu_seqlens, row.num_sequences, static_cast<int32_t>(index));
      located.place = PlaceOf(row, tasks.sequences, located.sequence);
      located.token = static_cast<uint32_t>(index - row.cu_seqlens[located.sequence]);
      located.row_end = located.place.tokens;
    }
    return located;
  }

  static __device__ bool Advance(Located& located, uint32_t by) {
    if (located.token >= located.row_end || by >= located.row_end - located.token) return false;
    located.token += by;
    return true;
  }

  static __device__ TokenMove MoveOf(const Tasks& tasks, const FieldWay& way,
                                     const Located& located) {
    const auto& [place, sequence, token, row_end] = located;
    if (!IsWritten(tasks, located)) return ToNowhere(located);
    const SourceRun from = UnpackSource(tasks.row, place, way.token_shift, token, row_end);
    const int64_t begin = FieldRowOf(tasks.sequences, place, way.width).begin;
    return {from.source, begin + token, Least(from.run, row_end - token), from.before};
  }

  // Whether the token has a place in the sequences' rows.
  static __device__ bool IsWritten(const Tasks& tasks, const Located& located) {
    return located.place.row < tasks.sequences.num_rows && located.token < located.row_end;
  }

  // To the end of the sequence; behind the last one, to the end of all.
  static __device__ TokenMove ToNowhere(const Located& located) {
    const uint32_t token = located.token;
    const uint32_t end = located.row_end > token ? located.row_end : located.place.length;
    return {kPadding, kNowhere, end > token ? end - token : kNone, 0};
  }
};

// Of a row that shares prefixes.
struct UnpackShared {
  static constexpr bool kShares = true;
  static constexpr bool kPadsOnError = false;
  static constexpr bool kHasIds = true;

  struct Located {
    UnpackTokens::Located in;
    // Of the row, with the token; only if it is written.
    PathPiece piece;
  };

  static __device__ Located Locate(const Tasks& tasks, const FieldGroup& group, int64_t index) {
    Located located{UnpackTokens::Locate(tasks, group, index), {}};
    const auto& [place, sequence, token, row_end] = located.in;
    if (UnpackTokens::IsWritten(tasks, located.in)) {
      located.piece = UnpackPiece(tasks.row, place, sequence, token, row_end);
    }
    return located;
  }

  static __device__ bool Advance(Located& located, uint32_t by) {
    const uint32_t token = located.in.token;
    if (token >= located.piece.end || by >= located.piece.end - token) return false;
    return UnpackTokens::Advance(located.in, by);
  }

  static __device__ TokenMove MoveOf(const Tasks& tasks, const FieldWay& way,
                                     const Located& located) {
    if (!UnpackTokens::IsWritten(tasks, located.in)) return UnpackTokens::ToNowhere(located.in);
    const auto [cell, begin, end] = located.piece;
    const uint32_t token = located.in.token;
    const int64_t row_begin = FieldRowOf(tasks.sequences, located.in.place, way.width).begin;
    return {cell == kNone ? kPadding : int64_t{cell} + (token - begin), row_begin + token,
            Least(end, located.in.row_end) - token, token - begin};
  }

  static __device__ bool IsIds(batchplan_content content) {
    return content == BATCHPLAN_CONTENT_PREDECESSORS;
  }

  static __device__ TokenId IdOf(const Tasks& tasks, const FieldWay& way, const Located& located,
                                 bool /*holds_error*/) {
    const auto& [place, sequence, token, row_end] = located.in;
    if (!UnpackTokens::IsWritten(tasks, located.in)) return {-1, kNowhere};
    const int64_t destination = FieldRowOf(tasks.sequences, place, way.width).begin + token;
    if (token == 0 || token >= place.length) return {-1, destination};
    PathPiece piece = located.piece;
    if (piece.begin == token) piece = UnpackPiece(tasks.row, place, sequence, token - 1, row_end);
    if (piece.cell == kNone) return {-1, destination};
    return {int64_t{piece.cell} + (token - 1 - piece.begin), destination};
  }
};

}  // namespace batchplan::kernels::cuda

#endif  // BATCHPLAN_KERNELS_SRC_CUDA_DIRECTIONS_H_
