#include <cuda_runtime.h>

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "src/backends.h"
#include "src/cuda/launch.h"
#include "src/error_word.h"
#include "src/layout_arithmetic.h"

namespace batchplan::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kLengthsPerThread = 4;
constexpr uint32_t kTile = kThreads * kLengthsPerThread;

struct Sum {
  template <typename T>
  __device__ T operator()(const T& a, const T& b) const {
    return a + b;
  }
};

// One block: the lengths of a micro-batch are few, and a single launch with no workspace is worth
// more than a wider scan.
__global__ void __launch_bounds__(kThreads)
    ComputeLayoutKernel(const uint32_t* __restrict__ lengths, uint32_t num_sequences,
                        batchplan_layout_options options, batchplan_packed_layout layout,
                        batchplan_status* error_word) {
  using Reduce = cub::BlockReduce<LengthSummary, kThreads>;
  using Scan = cub::BlockScan<Offsets, kThreads>;
  __shared__ typename Reduce::TempStorage reduce_storage;
  __shared__ typename Scan::TempStorage scan_storage;
  __shared__ bool shared_exists;

  LengthSummary summary{};
  // num_sequences is below 2^31, so that no index here wraps.
  for (uint32_t i = threadIdx.x; i < num_sequences; i += kThreads) {
    summary = summary + SummaryOf(lengths[i], options);
  }
  summary = Reduce(reduce_storage).Reduce(summary, Sum{});
  if (threadIdx.x == 0) {
    const batchplan_status status = CheckSummary(summary, options);
    const bool exists = status == BATCHPLAN_OK;
    if (!exists) ReportError(error_word, status);
    WriteMaxima(layout, exists ? num_sequences : 0, summary.max_seqlen, options);
    shared_exists = exists;
  }
  __syncthreads();
  const bool exists = shared_exists;

  // Every thread carries the offset at which the tile begins, and after the last tile their total.
  Offsets begin{};
  for (uint32_t tile = 0; tile < num_sequences; tile += kTile) {
    const uint32_t first = tile + threadIdx.x * kLengthsPerThread;
    Offsets items[kLengthsPerThread];
    for (uint32_t k = 0; k < kLengthsPerThread; ++k) {
      const bool counts = exists && first + k < num_sequences;
      items[k] = counts ? OffsetsOf(lengths[first + k], options) : Offsets{};
    }
    Offsets total;
    Scan(scan_storage).ExclusiveScan(items, items, Offsets{}, Sum{}, total);
    for (uint32_t k = 0; k < kLengthsPerThread && first + k < num_sequences; ++k) {
      WriteOffsets(layout, first + k, begin + items[k], options.context_parallel);
    }
    begin = begin + total;
    __syncthreads();  // before the next tile uses scan_storage again
  }
  if (threadIdx.x == 0) WriteOffsets(layout, num_sequences, begin, options.context_parallel);
}

}  // namespace

batchplan_status ComputeLayout(const uint32_t* lengths, uint32_t num_sequences,
                               const batchplan_layout_options& options,
                               const batchplan_packed_layout& layout, batchplan_status* error_word,
                               void* stream) {
  return Launch(ComputeLayoutKernel, 1, kThreads, stream, lengths, num_sequences, options, layout,
                error_word);
}

}  // namespace batchplan::kernels::cuda
