// Fields of narrow tokens: a thread for each word of the destination, for all fields of a group.

#ifndef BATCHPLAN_KERNELS_SRC_CUDA_NARROW_FIELDS_H_
#define BATCHPLAN_KERNELS_SRC_CUDA_NARROW_FIELDS_H_

#include <cuda_runtime.h>
#include <stdint.h>

#include "src/cuda/directions.h"
#include "src/cuda/move_tasks.h"

namespace batchplan::kernels::cuda {

// Fields whose words a thread loads before it stores the first.
inline constexpr uint32_t kFieldsAtOnce = 4;

// The move of one word in each field of a way: from word `source` of the source, or from padding if
// that is kPadding, to word `destination` of the destination. It is word `in_token` of its token.
struct WordMove {
  int64_t source;
  int64_t destination;
  uint32_t in_token;
};

// Fields first .. last - 1, whose words are of type Word.
template <typename Word>
__device__ void MoveWords(const Tasks& tasks, uint32_t first, uint32_t last, const WordMove& move) {
  const auto to = [&](uint32_t i) {
    return reinterpret_cast<Word*>(tasks.fields[i].destination) + move.destination;
  };
  if (move.source == kPadding) {
#pragma unroll 1
    for (; first < last; ++first) {
      *to(first) = static_cast<Word>(PadWord(tasks.fields[first].pad, move.in_token));
    }
    return;
  }
#pragma unroll 1
  for (; first < last; first += kFieldsAtOnce) {
    Word values[kFieldsAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kFieldsAtOnce; ++k) {
      if (first + k >= last) break;
      values[k] =
          __ldg(reinterpret_cast<const Word*>(tasks.fields[first + k].source) + move.source);
    }
#pragma unroll
    for (uint32_t k = 0; k < kFieldsAtOnce; ++k) {
      if (first + k < last) *to(first + k) = values[k];
    }
  }
}

template <typename Direction>
__device__ void MoveWay(const Tasks& tasks, const FieldWay& way, uint32_t words_per_token,
                        const typename Direction::Located& located, uint32_t in_token,
                        bool holds_error) {
  if constexpr (Direction::kHasIds) {
    if (Direction::IsIds(way.content)) {
      const auto [id, place] = Direction::IdOf(tasks, way, located, holds_error);
      if (place == kNowhere) return;
#pragma unroll 1
      for (uint32_t i = way.first_field; i < way.ends[kWordsOf8]; ++i) {
        reinterpret_cast<int64_t*>(tasks.fields[i].destination)[place] = id;
      }
#pragma unroll 1
      for (uint32_t i = way.ends[kWordsOf8]; i < way.ends[kWordsOf4]; ++i) {
        reinterpret_cast<int32_t*>(tasks.fields[i].destination)[place] = static_cast<int32_t>(id);
      }
      return;
    }
  }
  const TokenMove tokens = Direction::MoveOf(tasks, way, located);
  if (tokens.destination == kNowhere) return;
  const bool is_padding = holds_error || tokens.source == kPadding;
  const WordMove move = {is_padding ? kPadding : tokens.source * words_per_token + in_token,
                         tokens.destination * words_per_token + in_token, in_token};
  MoveWords<unsigned long long>(tasks, way.first_field, way.ends[kWordsOf8], move);
  MoveWords<uint32_t>(tasks, way.ends[kWordsOf8], way.ends[kWordsOf4], move);
  MoveWords<uint16_t>(tasks, way.ends[kWordsOf4], way.ends[kWordsOf2], move);
  MoveWords<uint8_t>(tasks, way.ends[kWordsOf2], way.ends[kWordsOf1], move);
}

template <typename Direction>
__device__ void MoveNarrowFields(const Tasks& tasks, const FieldGroup& group, bool holds_error) {
  const uint32_t words_per_token = group.token_size;
  const int64_t block = int64_t{blockIdx.x - group.first_block} * kThreads * group.rounds;
  // Neighbours in a warp have neighbours' words, in every round.
  int64_t item = block + threadIdx.x / kWarp * kWarp * group.rounds + threadIdx.x % kWarp;
  typename Direction::Located located{};
  bool is_located = false;
  for (uint32_t round = 0; round < group.rounds; ++round, item += kWarp) {
    // Every thread of a warp locates a token, the group's last one if it has none of its own.
    const int64_t located_item = Least(item, group.items - 1);
    const int64_t token =
        words_per_token == 1 ? located_item : WholeQuotient(located_item, words_per_token);
    is_located = is_located && words_per_token == 1 && Direction::Advance(located, kWarp);
    if (__ballot_sync(kWholeWarp, is_located) != kWholeWarp) {
      located = Direction::Locate(tasks, group, token);
    }
    is_located = item < group.items;
    if (!is_located) continue;
    const auto in_token = static_cast<uint32_t>(located_item - token * words_per_token);
    for (uint32_t i = group.first_way; i < group.first_way + uint32_t{group.num_ways}; ++i) {
      MoveWay<Direction>(tasks, tasks.ways[i], words_per_token, located, in_token, holds_error);
    }
  }
}

}  // namespace batchplan::kernels::cuda

#endif  // BATCHPLAN_KERNELS_SRC_CUDA_NARROW_FIELDS_H_
