#include <cuda_runtime.h>

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "src/backends.h"
#include "src/cuda/launch.h"
#include "src/cuda/warp.h"
#include "src/error_word.h"
#include "src/layout_arithmetic.h"
#include "src/row_arithmetic.h"
#include "src/shared_arithmetic.h"

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

// Works from small blocks of sequences to large ones, whose minimum comes from the blocks within.
// No thread reads what another one writes in the same round.
__device__ void WriteLeastShared(const SequenceLengths& sequences, bool exists,
                                 int32_t* least_shared) {
  const uint32_t count = sequences.num_sequences;
  for (uint32_t block = 1; block <= count; block *= 2) {
    for (uint64_t end = uint64_t{block} * (2 * threadIdx.x + 1); end <= count;
         end += uint64_t{block} * 2 * kThreads) {
      const auto i = static_cast<uint32_t>(end) - 1;
      least_shared[i] = LeastSharedOf(sequences, exists, least_shared, i);
    }
    __syncthreads();
  }
}

// A warp for each sequence.
__device__ void WriteSubtreeEnd(const Row& row, int32_t* subtree_end) {
  const auto fill = [&](uint32_t begin, uint32_t count, uint32_t end) {
    for (uint32_t i = threadIdx.x % kWarp; i < count; i += kWarp) {
      subtree_end[begin + i] = static_cast<int32_t>(end);
    }
  };
  for (uint32_t sequence = threadIdx.x / kWarp; sequence < row.num_sequences;
       sequence += kThreads / kWarp) {
    const uint32_t end = ShardOf(row, sequence + 1).begin;
    ForEachClosedBy(row, sequence, [&](uint32_t cell, uint32_t count) { fill(cell, count, end); });
  }
  const Shard tail = ShardOf(row, row.num_sequences);
  for (uint32_t i = threadIdx.x; i < tail.cells; i += kThreads) {
    subtree_end[tail.begin + i] = static_cast<int32_t>(row.width);
  }
}

// A single block: a micro-batch has few lengths, and one launch without a workspace is worth more
// than a wider scan.
__global__ void __launch_bounds__(kThreads, 1)
    ComputeLayoutKernel(SequenceLengths sequences, batchplan_layout_options options,
                        batchplan_packed_layout layout, batchplan_status* error_word) {
  using Reduce = cub::BlockReduce<LengthSummary, kThreads>;
  using Scan = cub::BlockScan<Offsets, kThreads>;
  __shared__ typename Reduce::TempStorage reduce_storage;
  __shared__ typename Scan::TempStorage scan_storage;
  __shared__ bool shared_exists;

  const uint32_t num_sequences = sequences.num_sequences;
  const bool shares = sequences.shared != nullptr;
  LengthSummary summary{};
  // num_sequences is below 2^31, so that no index overflows.
  for (uint32_t i = threadIdx.x; i < num_sequences; i += kThreads) {
    summary = summary + SummaryOf(sequences, i, options);
  }
  summary = Reduce(reduce_storage).Reduce(summary, Sum{});
  if (threadIdx.x == 0) {
    const batchplan_status status = CheckSummary(summary, options, shares);
    const bool exists = status == BATCHPLAN_OK;
    if (!exists) ReportError(error_word, status);
    WriteMaxima(layout, summary, exists);
    shared_exists = exists;
  }
  __syncthreads();
  const bool exists = shared_exists;

  // Every thread has the offset at which the tile begins; after the last tile, the totals.
  Offsets begin{};
  for (uint32_t tile = 0; tile < num_sequences; tile += kTile) {
    const uint32_t first = tile + threadIdx.x * kLengthsPerThread;
    Offsets items[kLengthsPerThread];
    for (uint32_t k = 0; k < kLengthsPerThread; ++k) {
      const bool counts = exists && first + k < num_sequences;
      items[k] = counts ? OffsetsOf(sequences, first + k, options) : Offsets{};
    }
    Offsets total;
    Scan(scan_storage).ExclusiveScan(items, items, Offsets{}, Sum{}, total);
    for (uint32_t k = 0; k < kLengthsPerThread && first + k < num_sequences; ++k) {
      WriteOffsets(layout, first + k, begin + items[k], options.context_parallel, shares);
    }
    begin = begin + total;
    __syncthreads();  // before the next tile uses scan_storage again
  }
  if (threadIdx.x == 0) {
    WriteOffsets(layout, num_sequences, begin, options.context_parallel, shares);
  }
  if (layout.least_shared != nullptr) WriteLeastShared(sequences, exists, layout.least_shared);
  __syncthreads();
  if (layout.subtree_end != nullptr) {
    WriteSubtreeEnd(WholeRow(layout, sequences, options), layout.subtree_end);
  }
}

}  // namespace

batchplan_status ComputeLayout(const SequenceLengths& sequences,
                               const batchplan_layout_options& options,
                               const batchplan_packed_layout& layout, batchplan_status* error_word,
                               void* stream) {
  return Launch(ComputeLayoutKernel, 1, kThreads, stream, sequences, options, layout, error_word);
}

}  // namespace batchplan::kernels::cuda
