// Packing and unpacking: one launch for all fields of a micro-batch.
//
// A field is cut into tiles of kTileWords words (cuda/vectors.h), one thread block each. A block
// first finds, a thread per token, where the tokens of its tile come from and go to; then it moves
// the words, several loads in flight per thread before the first store. The search for a token is
// thus paid once a token and not once a word, and wide and narrow fields run the same code.

#include <cuda_runtime.h>

#include "src/backends.h"
#include "src/cuda/launch.h"
#include "src/cuda/vectors.h"
#include "src/error_word.h"
#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256;
// Loads in flight per thread, and how often.
constexpr uint32_t kWordsAtOnce = 4;
constexpr uint32_t kRounds = 2;
constexpr uint32_t kTileWords = kThreads * kWordsAtOnce * kRounds;
// One word a token; tokens of two or more are fewer, though a tile may begin within one.
constexpr uint32_t kMostTokens = kTileWords;
constexpr int64_t kMostBlocks = INT32_MAX;

// A field as the kernel needs it.
struct FieldTask {
  const char* source;
  char* destination;
  uint64_t width;
  // Words of the whole destination.
  int64_t words;
  uint32_t token_bytes;
  uint32_t words_per_token;
  // As in Words.
  uint32_t aligned_bytes;
  // The first thread block that is this field's.
  uint32_t first_block;
  int32_t token_shift;
  batchplan_content content;
  // The pad value, as often as it goes into a word.
  uint4 pad;
};

// All of a launch, in its parameters: nothing to upload, nothing to keep alive.
struct Tasks {
  Row row;
  batchplan_sequences sequences;
  uint64_t narrowest;
  batchplan_status* error_word;
  uint32_t num_fields;
  bool has_source;
  FieldTask fields[BATCHPLAN_MAX_FIELDS];
};
static_assert(sizeof(Tasks) <= 4096, "the parameters of a kernel");

// Where the tokens of a tile come from and go to, in bytes; kPadding: from nowhere, or nowhere to
// go.
struct TileTokens {
  int64_t source[kMostTokens];
  int64_t destination[kMostTokens];
};

__device__ void CheckSequences(const Tasks& tasks) {
  // 64 bits: the grid's threads may be more than 2^32.
  for (uint64_t sequence = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
       sequence < tasks.row.num_sequences; sequence += uint64_t{gridDim.x} * kThreads) {
    const batchplan_status status = CheckMove(tasks.row, tasks.sequences, tasks.has_source,
                                              tasks.narrowest, static_cast<uint32_t>(sequence));
    if (status != BATCHPLAN_OK) ReportError(tasks.error_word, status);
  }
}

__device__ const FieldTask& FieldOfBlock(const Tasks& tasks) {
  uint32_t field = tasks.num_fields - 1;
  while (tasks.fields[field].first_block > blockIdx.x) --field;
  return tasks.fields[field];
}

// Ids have no source: they are written at once, and the token has nowhere left to go.
__device__ void WriteId(const Tasks& tasks, const FieldTask& field, int64_t cell, int64_t id) {
  if (HoldsError(tasks.error_word)) return;
  if (field.token_bytes == sizeof(int32_t)) {
    reinterpret_cast<int32_t*>(field.destination)[cell] = static_cast<int32_t>(id);
  } else {
    reinterpret_cast<int64_t*>(field.destination)[cell] = id;
  }
}

struct PackTokens {
  // Token number `cell` of the destination: where it comes from and goes to.
  static __device__ void Find(const Tasks& tasks, const FieldTask& field, int64_t cell,
                              int64_t& source, int64_t& destination) {
    const Row& row = tasks.row;
    const bool all = row.rank == BATCHPLAN_ALL_RANKS;
    const uint32_t rank = all ? static_cast<uint32_t>(cell) / row.cells : row.rank;
    const uint32_t in_rank =
        all ? static_cast<uint32_t>(cell) % row.cells : static_cast<uint32_t>(cell);
    const uint32_t sequence = SequenceOfCell(row, in_rank);
    const Shard shard = ShardOf(row, sequence);
    const TokenRun token = TokenOfCell(row, rank, shard, in_rank - shard.begin);
    if (field.content == BATCHPLAN_CONTENT_POSITION_IDS) {
      WriteId(tasks, field, cell, token.token);
      destination = kPadding;
      return;
    }
    if (field.content == BATCHPLAN_CONTENT_SEQUENCE_IDS) {
      WriteId(tasks, field, cell, sequence < row.num_sequences ? int64_t{sequence} : -1);
      destination = kPadding;
      return;
    }
    source = PackSource(row, tasks.sequences, field.content, field.width, field.token_shift,
                        sequence, token)
                 .source;
    destination = cell;
  }
};

struct UnpackTokens {
  static __device__ void Find(const Tasks& tasks, const FieldTask& field, int64_t index,
                              int64_t& source, int64_t& destination) {
    const Row& row = tasks.row;
    uint32_t sequence = 0;
    uint32_t token = 0;
    destination = kPadding;
    if (tasks.sequences.offsets == nullptr) {
      sequence = static_cast<uint32_t>(index / field.width);
      token = static_cast<uint32_t>(index % field.width);
    } else {
      // True tokens, counted through; their number is not known on the host, only that they fit
      // into the row.
      sequence = LastNotAbove(row.cu_seqlens, row.num_sequences, index);
      if (sequence >= row.num_sequences) return;
      token = static_cast<uint32_t>(index - row.cu_seqlens[sequence]);
      if (token >= LengthOf(row, sequence)) return;
    }
    const uint64_t sequence_row = RowOfSequence(tasks.sequences, sequence);
    destination = TokenOfRow(tasks.sequences, field.width, sequence_row, token);
    source = UnpackSource(row, field.token_shift, sequence, token, token + 1).source;
  }
};

// Moves the words of a tile whose first is word `first_word` of token 0 of `tokens`.
template <typename Word>
__device__ void MoveAligned(const FieldTask& field, const TileTokens& tokens, uint32_t first_word,
                            uint32_t count) {
  Word pad;
  memcpy(&pad, &field.pad, sizeof pad);
#pragma unroll 1
  for (uint32_t round = 0; round < kRounds; ++round) {
    Word values[kWordsAtOnce];
    Word* to[kWordsAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kWordsAtOnce; ++k) {
      const uint32_t word = (round * kWordsAtOnce + k) * kThreads + threadIdx.x;
      to[k] = nullptr;
      if (word >= count) continue;
      const uint32_t token = (first_word + word) / field.words_per_token;
      const uint32_t in_token = (first_word + word) % field.words_per_token;
      if (tokens.destination[token] == kPadding) continue;
      to[k] = reinterpret_cast<Word*>(field.destination + tokens.destination[token]) + in_token;
      const int64_t source = tokens.source[token];
      values[k] = source == kPadding
                      ? pad
                      : __ldg(reinterpret_cast<const Word*>(field.source + source) + in_token);
    }
#pragma unroll
    for (uint32_t k = 0; k < kWordsAtOnce; ++k) {
      if (to[k] != nullptr) *to[k] = values[k];
    }
  }
}

__device__ void MoveShifted(const FieldTask& field, const TileTokens& tokens, uint32_t first_word,
                            uint32_t count) {
#pragma unroll 1
  for (uint32_t round = 0; round < kRounds; ++round) {
    uint4 values[kWordsAtOnce];
    char* to[kWordsAtOnce];
    const char* begins[kWordsAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kWordsAtOnce; ++k) {
      const uint32_t word = (round * kWordsAtOnce + k) * kThreads + threadIdx.x;
      to[k] = nullptr;
      if (word >= count) continue;
      const uint32_t token = (first_word + word) / field.words_per_token;
      const uint32_t in_token = (first_word + word) % field.words_per_token;
      if (tokens.destination[token] == kPadding) continue;
      char* const begin = field.destination + tokens.destination[token];
      begins[k] = begin;
      to[k] = begin - reinterpret_cast<uintptr_t>(begin) % kVectorBytes + in_token * kVectorBytes;
      if (to[k] >= begin + field.token_bytes) {
        to[k] = nullptr;  // a token that begins aligned touches fewer words
        continue;
      }
      const int64_t source = tokens.source[token];
      const char* const from = field.source + source;
      values[k] = source == kPadding
                      ? field.pad
                      : LoadWithin(from + (to[k] - begin), from, from + field.token_bytes);
    }
#pragma unroll
    for (uint32_t k = 0; k < kWordsAtOnce; ++k) {
      if (to[k] != nullptr) StoreWithin(to[k], begins[k], begins[k] + field.token_bytes, values[k]);
    }
  }
}

// kShifts: whether a field may need MoveShifted. Without it the kernel takes fewer registers, and
// more blocks are at work at once.
template <typename TokensOfDirection, bool kShifts>
__global__ void __launch_bounds__(kThreads) MoveKernel(const __grid_constant__ Tasks tasks) {
  __shared__ TileTokens tokens;
  __shared__ bool stopped;
  CheckSequences(tasks);
  if (tasks.num_fields == 0) return;
  // What an earlier call found wrong, this one does not build on.
  if (threadIdx.x == 0) stopped = HoldsError(tasks.error_word);
  const FieldTask& field = FieldOfBlock(tasks);
  const int64_t begin = int64_t{blockIdx.x - field.first_block} * kTileWords;
  const auto count = static_cast<uint32_t>(Least(field.words - begin, int64_t{kTileWords}));
  const int64_t first_token = begin / field.words_per_token;
  const auto first_word = static_cast<uint32_t>(begin - first_token * field.words_per_token);
  const uint32_t num_tokens = (first_word + count - 1) / field.words_per_token + 1;

  for (uint32_t i = threadIdx.x; i < num_tokens; i += kThreads) {
    int64_t source = kPadding;
    int64_t destination = kPadding;
    TokensOfDirection::Find(tasks, field, first_token + i, source, destination);
    tokens.source[i] = source == kPadding ? kPadding : source * field.token_bytes;
    tokens.destination[i] = destination == kPadding ? kPadding : destination * field.token_bytes;
  }
  __syncthreads();
  if (stopped) return;

  switch (field.aligned_bytes) {
    case 16:
      return MoveAligned<uint4>(field, tokens, first_word, count);
    case 8:
      return MoveAligned<uint2>(field, tokens, first_word, count);
    case 4:
      return MoveAligned<uint32_t>(field, tokens, first_word, count);
    case 2:
      return MoveAligned<uint16_t>(field, tokens, first_word, count);
    case 1:
      return MoveAligned<uint8_t>(field, tokens, first_word, count);
    default:
      if constexpr (kShifts) MoveShifted(field, tokens, first_word, count);
  }
}

// All but how many words there are.
FieldTask TaskOf(const batchplan_field& field, uint32_t first_block) {
  FieldTask task{};
  const bool has_source = HasSource(field);
  task.source = has_source ? static_cast<const char*>(field.source) : nullptr;
  task.destination = static_cast<char*>(field.destination);
  task.width = field.width;
  task.token_bytes = static_cast<uint32_t>(field.element_size * field.elements_per_token);
  const Words words = WordsOf(
      reinterpret_cast<uintptr_t>(task.source) | reinterpret_cast<uintptr_t>(task.destination),
      task.token_bytes);
  task.words_per_token = words.per_token;
  task.aligned_bytes = words.aligned_bytes;
  task.first_block = first_block;
  task.token_shift = field.token_shift;
  task.content = field.content;
  auto* const pad = reinterpret_cast<unsigned char*>(&task.pad);
  for (uint32_t i = 0; i < kVectorBytes; ++i) pad[i] = field.pad_value[i % field.element_size];
  return task;
}

// `tokens_of` says how many tokens the destination of a field may have.
template <typename TokensOfDirection, typename TokensOf>
batchplan_status Move(const Movement& movement, batchplan_status* error_word, void* stream,
                      const TokensOf& tokens_of) {
  Tasks tasks{};
  tasks.row = movement.row;
  tasks.sequences = movement.sequences;
  tasks.narrowest = movement.narrowest;
  tasks.error_word = error_word;
  tasks.has_source = movement.has_source;
  int64_t blocks = 0;
  bool shifts = false;
  for (uint32_t i = 0; i < movement.num_fields; ++i) {
    const int64_t tokens = tokens_of(movement.fields[i]);
    if (tokens == 0) continue;
    FieldTask task = TaskOf(movement.fields[i], static_cast<uint32_t>(blocks));
    if (tokens > kMostBlocks * kTileWords / task.words_per_token) return BATCHPLAN_ERROR_OVERFLOW;
    task.words = tokens * task.words_per_token;
    blocks += (task.words + kTileWords - 1) / kTileWords;
    if (blocks > kMostBlocks) return BATCHPLAN_ERROR_OVERFLOW;
    tasks.fields[tasks.num_fields++] = task;
    shifts = shifts || task.aligned_bytes == 0;
  }
  if (blocks == 0 && movement.row.num_sequences == 0) return BATCHPLAN_OK;
  // Nothing to write, but sequences to judge.
  if (blocks == 0) blocks = 1;
  const auto kernel =
      shifts ? MoveKernel<TokensOfDirection, true> : MoveKernel<TokensOfDirection, false>;
  return Launch(kernel, static_cast<uint32_t>(blocks), kThreads, stream, tasks);
}

}  // namespace

batchplan_status Pack(const Movement& movement, batchplan_status* error_word, void* stream) {
  return Move<PackTokens>(movement, error_word, stream, [&](const batchplan_field&) {
    return int64_t{PackedCells(movement.row)};
  });
}

batchplan_status Unpack(const Movement& movement, batchplan_status* error_word, void* stream) {
  const Row& row = movement.row;
  const bool ragged = movement.sequences.offsets != nullptr;
  return Move<UnpackTokens>(movement, error_word, stream, [&](const batchplan_field& field) {
    if (ragged) return int64_t{row.num_sequences > 0 ? row.width : 0};
    return static_cast<int64_t>(row.num_sequences * field.width);
  });
}

}  // namespace batchplan::kernels::cuda
