// The gradient of unpacking: a thread for each word of the row's gradient, which adds up what the
// sequences of its token have.

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

// Elements that a thread loads and stores at once.
template <typename Stored, uint32_t kElements>
struct alignas(sizeof(Stored) * kElements) Word {
  Stored elements[kElements];
};

// What the sequences from `sequence` on have at word `word` of token `token`, as long as they share
// it.
template <typename Type, uint32_t kElements>
__device__ Word<typename Type::Stored, kElements> SumOf(const GradientTask& task, uint32_t sequence,
                                                        uint32_t token, int64_t words_per_token,
                                                        int64_t word) {
  using Sum = typename Type::Sum;
  using Loaded = Word<typename Type::Stored, kElements>;
  const auto* const source = static_cast<const Loaded*>(task.gradient.source);
  Sum sums[kElements] = {};
  for (uint32_t k = sequence; k == sequence || SharedOf(task.row, k) > token; ++k) {
    const FieldRow from = GradientRowOf(task, k);
    if (token >= from.tokens) continue;
    const Loaded loaded = source[(from.begin + token) * words_per_token + word];
#pragma unroll
    for (uint32_t i = 0; i < kElements; ++i) {
      const Sum value = Type::Of(loaded.elements[i]);
      sums[i] = k == sequence ? value : sums[i] + value;
    }
  }
  Loaded stored;
#pragma unroll
  for (uint32_t i = 0; i < kElements; ++i) stored.elements[i] = Type::From(sums[i]);
  return stored;
}

template <typename Type, uint32_t kElements>
__global__ void __launch_bounds__(kThreads)
    UnpackGradientKernel(const __grid_constant__ GradientTask task, batchplan_status* error_word) {
  using Stored = Word<typename Type::Stored, kElements>;
  const Row& row = task.row;
  const auto words_per_token = static_cast<int64_t>(task.gradient.elements_per_token / kElements);
  const int64_t items = row.width * words_per_token;
  const int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const bool holds_error = HoldsError(error_word);
  if (items > 0) {
    // Every thread of a warp searches, for the last word if it has none of its own.
    const int64_t searched = Least(item, items - 1);
    const auto cell = static_cast<uint32_t>(WholeQuotient(searched, words_per_token));
    const uint32_t sequence =
        LastNotAboveOfEach(row.cu_seqlens_padded, row.num_sequences, static_cast<int32_t>(cell));
    if (item < items) {
      Stored sum{};
      const Shard shard = ShardOf(row, sequence);
      if (!holds_error && sequence < row.num_sequences && cell - shard.begin < shard.cells) {
        const uint32_t token = SharedOf(row, sequence) + (cell - shard.begin);
        sum = SumOf<Type, kElements>(task, sequence, token, words_per_token,
                                     item - cell * words_per_token);
      }
      static_cast<Stored*>(task.gradient.destination)[item] = sum;
    }
  }
  for (uint64_t i = static_cast<uint64_t>(item); i < row.num_sequences;
       i += uint64_t{gridDim.x} * kThreads) {
    const batchplan_status status = CheckMove<true>(row, task.sequences, /*has_rows=*/true,
                                                    task.gradient.width, static_cast<uint32_t>(i));
    if (status != BATCHPLAN_OK) ReportError(error_word, status);
  }
}

template <typename Type, uint32_t kElements>
batchplan_status LaunchFor(const GradientTask& task, batchplan_status* error_word, void* stream) {
  const uint64_t words_per_token = task.gradient.elements_per_token / kElements;
  // A token has at most 2^30 bytes and the row less than 2^31 tokens.
  const auto items = static_cast<int64_t>(task.row.width * words_per_token);
  int64_t blocks = (items + kThreads - 1) / kThreads;
  if (blocks > kMostBlocks) return BATCHPLAN_ERROR_OVERFLOW;
  if (blocks == 0 && task.row.num_sequences == 0) return BATCHPLAN_OK;
  // Nothing to write, but sequences to judge.
  if (blocks == 0) blocks = 1;
  return Launch(UnpackGradientKernel<Type, kElements>, static_cast<uint32_t>(blocks), kThreads,
                stream, task, error_word);
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
    return is_aligned ? LaunchFor<Type, kOfVector>(task, error_word, stream)
                      : LaunchFor<Type, 1>(task, error_word, stream);
  });
}

}  // namespace batchplan::kernels::cuda
