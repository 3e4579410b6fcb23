// Fields of wide tokens: a warp for each tile of the destination, run by run.
//
// A run is a number of tokens that lie end to end on both sides: a sequence, a chunk of it, or its
// padding. Its tokens move as one piece of bytes, in 16-byte words that are aligned in the
// destination. A word across the border of two tiles within a run belongs to the tile with its
// first byte, so that all words but those at a run's two ends are whole.

#ifndef BATCHPLAN_KERNELS_SRC_CUDA_WIDE_FIELDS_H_
#define BATCHPLAN_KERNELS_SRC_CUDA_WIDE_FIELDS_H_

#include <cuda_runtime.h>
#include <stdint.h>

#include "src/cuda/directions.h"
#include "src/cuda/move_tasks.h"
#include "src/cuda/vectors.h"
#include "src/cuda/warp.h"

namespace batchplan::kernels::cuda {

// Of a warp.
inline constexpr int64_t kTileBytes = 8192;
inline constexpr int64_t kBlockTiles = kThreads / kWarp;

// What a tile has of a run: `bytes` bytes from `from`, or of padding if that is null, to `to`. The
// run has `before` bytes before them and `after` bytes behind them; kFar stands for any number
// above.
struct TilePart {
  const char* from;
  char* to;
  int32_t bytes;
  int32_t before;
  int32_t after;
};

// No word of the tile reaches as far into the rest of its run.
inline constexpr int64_t kFar = 2 * kVectorBytes;

// Moves bytes begin .. end - 1 one by one; the address of each decides which byte of the pad value
// it is.
__device__ inline void MoveBytes(const TilePart& part, const FieldTask& field, int32_t begin,
                                 int32_t end) {
  for (auto i = begin + static_cast<int32_t>(threadIdx.x % kWarp); i < end;
       i += static_cast<int32_t>(kWarp)) {
    if (part.from != nullptr) {
      part.to[i] = part.from[i];
      continue;
    }
    const uint32_t place = SkewOf(part.to + i);
    part.to[i] = static_cast<char>(PadWord(field.pad, place / 8) >> (place % 8 * 8));
  }
}

__device__ inline void MovePart(const TilePart& part, const FieldTask& field) {
  constexpr auto kWord = static_cast<int32_t>(kVectorBytes);
  // Words begin at `aligned` plus a multiple of 16.
  const auto aligned = static_cast<int32_t>(-SkewOf(part.to) % kVectorBytes);
  const auto round_up = [&](int32_t place) { return place + ((aligned - place) & (kWord - 1)); };
  const int32_t begin = part.before == 0 ? 0 : aligned;
  const int32_t end = Least(round_up(part.bytes), part.bytes + part.after);
  // The words that can be put together of aligned ones within the run's source.
  const auto shift = part.from == nullptr ? 0 : static_cast<int32_t>(SkewOf(part.from + aligned));
  const int32_t first = round_up(begin > shift - part.before ? begin : shift - part.before);
  const int32_t limit = shift == 0 ? end : Least(end, part.bytes + part.after - kWord + shift);
  const int32_t words = limit > first ? (limit - first) / kWord : 0;
  const int32_t last = words > 0 ? first + words * kWord : end;
  MoveBytes(part, field, begin, words > 0 ? first : end);
  MoveBytes(part, field, last, end);
  auto* const to = reinterpret_cast<uint4*>(part.to + first);
  if (part.from != nullptr) {
    CopyVectors(to, part.from + first, static_cast<uint32_t>(words));
  } else {
    StoreVectors(to, static_cast<uint32_t>(words), [&](uint32_t) { return field.pad; });
  }
}

template <typename Direction>
__device__ void MoveWideField(const Tasks& tasks, const FieldGroup& group, bool holds_error) {
  const FieldWay& way = tasks.ways[group.first_way];
  const FieldTask& field = tasks.fields[way.first_field];
  const int64_t tile = int64_t{blockIdx.x - group.first_block} * kBlockTiles + threadIdx.x / kWarp;
  // To pack, tiles begin at whole words of the destination, which no two runs then share: each word
  // is written even if the layout is wrong and neighbours see it in different ways.
  const int64_t skew = Direction::kPadsOnError ? SkewOf(field.destination) : 0;
  const int64_t tile_begin = tile == 0 ? 0 : tile * kTileBytes - skew;
  const int64_t tile_end = Least((tile + 1) * kTileBytes - skew, group.items);
  const int64_t token_bytes = group.token_size;
  int64_t at = tile_begin;
  if (at >= tile_end) return;
  for (int64_t token = WholeQuotient(at, group.token_size); at < tile_end;) {
    TokenMove move = Direction::MoveOf(tasks, way, Direction::Locate(tasks, group, token));
    // One token of the source for many of the destination.
    if (way.content == BATCHPLAN_CONTENT_PER_SEQUENCE && move.source != kPadding) {
      move.run = 1;
      move.before = 0;
    }
    if (at != tile_begin) move.before = 0;
    const int64_t run_end = (token + move.run) * token_bytes;
    if (move.destination != kNowhere) {
      // Bytes of the run before this tile's part: of tokens before, and of this one.
      const int64_t in_token = at - token * token_bytes;
      const int64_t part_end = Least(tile_end, run_end);
      const bool is_padding = holds_error || move.source == kPadding;
      MovePart({is_padding ? nullptr : field.source + move.source * token_bytes + in_token,
                field.destination + move.destination * token_bytes + in_token,
                static_cast<int32_t>(part_end - at),
                static_cast<int32_t>(Least(move.before * token_bytes + in_token, kFar)),
                static_cast<int32_t>(Least(run_end - part_end, kFar))},
               field);
    }
    at = run_end;
    token += move.run;
  }
}

}  // namespace batchplan::kernels::cuda

#endif  // BATCHPLAN_KERNELS_SRC_CUDA_WIDE_FIELDS_H_
