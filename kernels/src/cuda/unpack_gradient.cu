// The gradient of unpacking. Each thread computes a word of the row's gradient by adding up the
// gradients of the sequences that have its token.

#include <cuda_runtime.h>

#include "src/alignment.h"
#include "src/backends.h"
#include "src/cuda/launch.h"
#include "src/cuda/vectors.h"
#include "src/cuda/warp.h"
#include "src/error_word.h"
#include "src/gradient_arithmetic.h"

namespace batchplan::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr int64_t kMostBlocks = INT32_MAX;

// The elements that a thread loads and stores at once.
template <typename Stored, uint32_t kElements>
struct alignas(sizeof(Stored) * kElements) Word {
  Stored elements[kElements];
};

// The words of a token that one thread adds up, a warp's width apart. A sequence's place is looked
// up once for all of them.
inline constexpr uint32_t kWordsOfWide = 4;

// Adds to `sums` token `token` of sequence `sequence` and of the following ones that share it.
// Reads words `word`, `word` + kWarp, ..., as far as the token has them.
template <typename Type, uint32_t kElements, uint32_t kWords>
__device__ void AddSequences(const GradientTask& task, uint32_t sequence, uint32_t token,
                             uint32_t words_per_token, uint32_t word,
                             typename Type::Sum (&sums)[kWords][kElements]) {
  using Loaded = Word<typename Type::Stored, kElements>;
  for (uint32_t k = sequence; k == sequence || SharedOf(task.row, k) > token; ++k) {
    const FieldRow from = GradientRowOf(task, k);
    if (token >= from.tokens) continue;
    const Loaded* const source =
        static_cast<const Loaded*>(task.gradient.source) + (from.begin + token) * words_per_token;
    Loaded loaded[kWords];
#pragma unroll
    for (uint32_t j = 0; j < kWords; ++j) {
      if (word + j * kWarp < words_per_token) loaded[j] = source[word + j * kWarp];
    }
#pragma unroll
    for (uint32_t j = 0; j < kWords; ++j) {
#pragma unroll
      for (uint32_t i = 0; i < kElements; ++i) {
        sums[j][i] += Type::Of(loaded[j].elements[i]);
      }
    }
  }
}

// How many threads work on a token. All but the last ones have kWords words.
template <uint32_t kWords>
BATCHPLAN_HOST_DEVICE constexpr int64_t ThreadsOfToken(int64_t words_per_token) {
  if (kWords == 1) return words_per_token;
  constexpr int64_t kOfWarp = int64_t{kWarp} * kWords;
  return (words_per_token + kOfWarp - 1) / kOfWarp * kWarp;
}

template <typename Type, uint32_t kElements, uint32_t kWords>
__global__ void __launch_bounds__(kThreads, 2)
    UnpackGradientKernel(const __grid_constant__ GradientTask task, batchplan_status* error_word) {
  using Stored = Word<typename Type::Stored, kElements>;
  const Row& row = task.row;
  const auto words_per_token = static_cast<uint32_t>(task.gradient.elements_per_token / kElements);
  const int64_t threads_of_token = ThreadsOfToken<kWords>(words_per_token);
  const int64_t threads = row.width * threads_of_token;
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const bool holds_error = HoldsError(error_word);
  if (threads > 0) {
    // The search needs the whole warp; a thread without a token searches for the last one.
    const int64_t searched = Least(thread, threads - 1);
    const auto cell = static_cast<uint32_t>(WholeQuotient(searched, threads_of_token));
    const uint32_t sequence =
        LastNotAboveOfEach(row.cu_seqlens_padded, row.num_sequences, static_cast<int32_t>(cell));
    if (thread < threads) {
      auto word = static_cast<uint32_t>(thread - cell * threads_of_token);
      if (kWords > 1) word = word / kWarp * kWarp * kWords + word % kWarp;
      typename Type::Sum sums[kWords][kElements] = {};
      const Shard shard = ShardOf(row, sequence);
      if (!holds_error && sequence < row.num_sequences && cell - shard.begin < shard.cells) {
        // Sums begin at -0, the neutral element of addition.
        for (auto& of_word : sums) {
          for (auto& sum : of_word) sum = -sum;
        }
        const uint32_t token = SharedOf(row, sequence) + (cell - shard.begin);
        AddSequences<Type, kElements, kWords>(task, sequence, token, words_per_token, word, sums);
      }
      Stored* const to =
          static_cast<Stored*>(task.gradient.destination) + int64_t{cell} * words_per_token;
#pragma unroll
      for (uint32_t j = 0; j < kWords; ++j) {
        Stored stored;
#pragma unroll
        for (uint32_t i = 0; i < kElements; ++i) stored.elements[i] = Type::From(sums[j][i]);
        if (word + j * kWarp < words_per_token) to[word + j * kWarp] = stored;
      }
    }
  }
  for (uint64_t i = static_cast<uint64_t>(thread); i < row.num_sequences;
       i += uint64_t{gridDim.x} * kThreads) {
    const batchplan_status status = CheckMove<true>(row, task.sequences, /*has_rows=*/true,
                                                    task.gradient.width, static_cast<uint32_t>(i));
    if (status != BATCHPLAN_OK) ReportError(error_word, status);
  }
}

template <typename Type, uint32_t kElements, uint32_t kWords>
batchplan_status LaunchFor(const GradientTask& task, batchplan_status* error_word, void* stream) {
  const auto words = static_cast<int64_t>(task.gradient.elements_per_token / kElements);
  // A token has at most 2^30 bytes and the row less than 2^31 tokens.
  const int64_t threads = task.row.width * ThreadsOfToken<kWords>(words);
  int64_t blocks = (threads + kThreads - 1) / kThreads;
  if (blocks > kMostBlocks) return BATCHPLAN_ERROR_OVERFLOW;
  if (blocks == 0 && task.row.num_sequences == 0) return BATCHPLAN_OK;
  // Without anything to write, one block checks the sequences.
  if (blocks == 0) blocks = 1;
  return Launch(UnpackGradientKernel<Type, kElements, kWords>, static_cast<uint32_t>(blocks),
                kThreads, stream, task, error_word);
}

}  // namespace

batchplan_status UnpackGradient(const GradientTask& task, batchplan_status* error_word,
                                void* stream) {
  return WithElements(task.gradient.data_type, [&](auto type) {
    using Type = decltype(type);
    constexpr uint32_t kOfVector = kVectorBytes / sizeof(typename Type::Stored);
    const bool is_aligned = IsAligned(task.gradient.source, kVectorBytes) &&
                            IsAligned(task.gradient.destination, kVectorBytes) &&
                            task.gradient.elements_per_token % kOfVector == 0;
    if (!is_aligned) return LaunchFor<Type, 1, 1>(task, error_word, stream);
    // Wide only if at least one warp of a token has all of its words.
    const bool is_wide =
        task.gradient.elements_per_token >= uint64_t{kOfVector} * kWordsOfWide * kWarp;
    return is_wide ? LaunchFor<Type, kOfVector, kWordsOfWide>(task, error_word, stream)
                   : LaunchFor<Type, kOfVector, 1>(task, error_word, stream);
  });
}

}  // namespace batchplan::kernels::cuda
