// Which token of the source a token of the destination gets: packing and unpacking.
//
// A direction has these steps. Locate reads what the arrays say of a token's sequence, for all
// fields of a group; every thread of a warp must call it, and tokens best ascend from thread to
// thread. Advance goes on to a later token if it belongs to the same run. MoveOf says where the
// token comes from and goes to in the fields of one way.

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

struct PackTokens {
  // While the error word holds an error there is no layout to go by: all is padding.
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

  // Of BATCHPLAN_CONTENT_POSITION_IDS or BATCHPLAN_CONTENT_SEQUENCE_IDS.
  static __device__ int64_t IdOf(const Tasks& tasks, batchplan_content content,
                                 const Located& located, bool holds_error) {
    if (content == BATCHPLAN_CONTENT_POSITION_IDS) {
      // What indexes by it stays in bounds also if offsets leave the cell without a token.
      return holds_error || located.token.token == kNone ? 0 : located.token.token;
    }
    const bool is_tail = located.sequence >= tasks.row.num_sequences;
    return holds_error || is_tail ? -1 : int64_t{located.sequence};
  }
};

struct UnpackTokens {
  // The rows may hold what no layout that failed must wipe out.
  static constexpr bool kPadsOnError = false;
  static constexpr bool kHasIds = false;

  struct Located {
    SequencePlace place;
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
      located.place = PlaceOf(row, tasks.sequences, static_cast<uint32_t>(sequence));
      located.token =
          static_cast<uint32_t>(index - sequence * static_cast<int64_t>(group.row_width));
      located.row_end = static_cast<uint32_t>(group.row_width);
    } else {
      const uint32_t sequence =
          LastNotAboveOfEach(row.cu_seqlens, row.num_sequences, static_cast<int32_t>(index));
      located.place = PlaceOf(row, tasks.sequences, sequence);
      located.token = static_cast<uint32_t>(index - row.cu_seqlens[sequence]);
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
    const auto& [place, token, row_end] = located;
    if (place.row >= tasks.sequences.num_rows || token >= row_end) {
      // To the end of the sequence; behind the last one, to the end of all.
      const uint32_t end = row_end > token ? row_end : place.length;
      return {kPadding, kNowhere, end > token ? end - token : kNone, 0};
    }
    const SourceRun from = UnpackSource(tasks.row, place, way.token_shift, token, row_end);
    const int64_t begin = FieldRowOf(tasks.sequences, place, way.width).begin;
    return {from.source, begin + token, Least(from.run, row_end - token), from.before};
  }
};

}  // namespace batchplan::kernels::cuda

#endif  // BATCHPLAN_KERNELS_SRC_CUDA_DIRECTIONS_H_
