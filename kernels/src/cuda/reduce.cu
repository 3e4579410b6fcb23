// Sums per sequence in three steps: a thread block sums each chunk of a sequence, another adds up
// the chunks of sequences that have several, and a third computes the totals.

#include <cuda_runtime.h>

#include "src/backends.h"
#include "src/cuda/launch.h"
#include "src/cuda/warp.h"
#include "src/error_word.h"
#include "src/reduce_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels::cuda {
namespace {

// Each lane's share of a chunk.
constexpr uint32_t kTermsOfLane = kChunk / kLanes;
// Enough to fill any device. A block loops over sequences.
constexpr uint32_t kMostBlocks = 1024;
constexpr uint32_t kCombineThreads = 128;

// Blocks resident on a multiprocessor: the most for which no thread lacks registers.
constexpr uint32_t kResidentBlocks = 3;

template <typename Sums>
__device__ Sums FromLane(const Sums& sums, uint32_t distance);

template <>
__device__ SequenceSums FromLane(const SequenceSums& sums, uint32_t distance) {
  return {__shfl_down_sync(kWholeWarp, sums.values, distance),
          __shfl_down_sync(kWholeWarp, sums.weights, distance)};
}

template <>
__device__ SequenceTotals FromLane(const SequenceTotals& totals, uint32_t distance) {
  return {__shfl_down_sync(kWholeWarp, totals.sum, distance),
          __shfl_down_sync(kWholeWarp, totals.mean, distance)};
}

// Adds the lanes pairwise, in the order that reduce_arithmetic.h states. Every thread must call it,
// with barriers between calls; only thread 0 gets the result.
template <typename Sums>
__device__ Sums AddLanes(Sums (&lanes)[kLanes], const Sums& lane) {
  lanes[threadIdx.x] = lane;
  for (uint32_t half = kLanes / 2; half >= kWarp; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) lanes[threadIdx.x] = lanes[threadIdx.x] + lanes[threadIdx.x + half];
  }
  if (threadIdx.x >= kWarp) return {};
  Sums sums = lanes[threadIdx.x];
  for (uint32_t half = kWarp / 2; half > 0; half /= 2) sums = sums + FromLane(sums, half);
  return sums;
}

// Sums the chunk that begins with token `first` of those to visit. Called like AddLanes.
__device__ SequenceSums SumsOfChunk(SequenceSums (&lanes)[kLanes], const Row& row,
                                    const batchplan_reduction& reduction,
                                    const VisitedTokens& tokens, uint32_t first) {
  Term terms[kTermsOfLane];
#pragma unroll
  for (uint32_t k = 0; k < kTermsOfLane; ++k) {
    terms[k] = TermAt(reduction, CellToVisit(row, tokens, first + k * kLanes + threadIdx.x));
  }
  SequenceSums lane{};
#pragma unroll
  for (uint32_t k = 0; k < kTermsOfLane; ++k) lane = lane + SumsOf(reduction, terms[k]);
  return AddLanes(lanes, lane);
}

// Checks all sequences, with all threads of the grid.
__device__ void CheckSequences(const Row& row, batchplan_status* error_word) {
  for (uint64_t sequence = uint64_t{blockIdx.x} * kLanes + threadIdx.x;
       sequence < row.num_sequences; sequence += uint64_t{gridDim.x} * kLanes) {
    const batchplan_status status = CheckSequence(row, static_cast<uint32_t>(sequence));
    if (status != BATCHPLAN_OK) ReportError(error_word, status);
  }
}

// Used without a workspace: each block sums a sequence, chunk by chunk.
__global__ void __launch_bounds__(kLanes, kResidentBlocks)
    ReduceSequences(Row row, batchplan_reduction reduction, batchplan_status* error_word) {
  __shared__ SequenceSums lanes[kLanes];
  CheckSequences(row, error_word);
  for (uint32_t sequence = blockIdx.x; sequence < row.num_sequences; sequence += gridDim.x) {
    const VisitedTokens tokens = TokensToVisit(row, sequence);
    SequenceSums sums{};
    for (uint32_t chunk = 0; chunk < ChunksOf(tokens.count); ++chunk) {
      sums = sums + SumsOfChunk(lanes, row, reduction, tokens, chunk * kChunk);
      __syncthreads();  // before the next chunk uses `lanes` again
    }
    if (threadIdx.x == 0) WriteSequence(reduction, nullptr, sequence, sums);
  }
}

// One block for each place that a chunk can have.
__global__ void __launch_bounds__(kLanes, kResidentBlocks)
    ReduceChunks(Row row, batchplan_reduction reduction, batchplan_status* error_word,
                 Workspace workspace) {
  __shared__ SequenceSums lanes[kLanes];
  CheckSequences(row, error_word);
  const auto place_of = [&](uint32_t sequence) {
    return static_cast<int32_t>(ChunkPlace(TokensToVisit(row, sequence), sequence));
  };
  const auto place = static_cast<int32_t>(blockIdx.x);
  const uint32_t sequence = LastNotAboveByWarp(row.num_sequences - 1, place, place_of);
  const uint32_t chunk = blockIdx.x - static_cast<uint32_t>(place_of(sequence));
  const VisitedTokens tokens = TokensToVisit(row, sequence);
  const uint32_t chunks = ChunksOf(tokens.count);
  // A sequence without tokens still needs its sums written.
  if (chunk > 0 && chunk >= chunks) return;
  const SequenceSums sums = SumsOfChunk(lanes, row, reduction, tokens, chunk * kChunk);
  if (threadIdx.x != 0) return;
  if (chunks > 1) {
    workspace.chunks[blockIdx.x] = sums;
  } else {
    WriteSequence(reduction, workspace.totals, sequence, sums);
  }
}

// One thread for each sequence.
__global__ void __launch_bounds__(kCombineThreads)
    CombineChunks(Row row, batchplan_reduction reduction, Workspace workspace) {
  const uint64_t sequence = uint64_t{blockIdx.x} * kCombineThreads + threadIdx.x;
  if (sequence >= row.num_sequences) return;
  const VisitedTokens tokens = TokensToVisit(row, static_cast<uint32_t>(sequence));
  const uint32_t chunks = ChunksOf(tokens.count);
  if (chunks <= 1) return;
  const SequenceSums* const first =
      workspace.chunks + ChunkPlace(tokens, static_cast<uint32_t>(sequence));
  SequenceSums sums{};
#pragma unroll 4
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) sums = sums + first[chunk];
  WriteSequence(reduction, workspace.totals, static_cast<uint32_t>(sequence), sums);
}

__global__ void __launch_bounds__(kLanes)
    AddTotals(uint32_t num_sequences, batchplan_reduction reduction, const SequenceTotals* totals) {
  __shared__ SequenceTotals lanes[kLanes];
  SequenceTotals total{};
  for (uint32_t chunk = 0; chunk < ChunksOf(num_sequences); ++chunk) {
    SequenceTotals terms[kTermsOfLane];
#pragma unroll
    for (uint32_t k = 0; k < kTermsOfLane; ++k) {
      const uint32_t i = chunk * kChunk + k * kLanes + threadIdx.x;
      terms[k] = i < num_sequences ? totals[i] : SequenceTotals{};
    }
    SequenceTotals lane{};
#pragma unroll
    for (uint32_t k = 0; k < kTermsOfLane; ++k) lane = lane + terms[k];
    total = total + AddLanes(lanes, lane);
    __syncthreads();  // before the next chunk uses `lanes` again
  }
  if (threadIdx.x == 0) WriteTotals(reduction, total);
}

// The most chunks that a row, or the rows of all ranks, can have.
uint32_t ChunkPlaces(const Row& row) { return PackedCells(row) / kChunk + row.num_sequences; }

}  // namespace

batchplan_status Reduce(const Row& row, const batchplan_reduction& reduction,
                        batchplan_status* error_word, const Workspace& workspace, void* stream) {
  if (row.num_sequences > 0 && workspace.totals == nullptr) {
    return Launch(ReduceSequences, Least(row.num_sequences, kMostBlocks), kLanes, stream, row,
                  reduction, error_word);
  }
  if (row.num_sequences > 0) {
    if (ChunkPlaces(row) > INT32_MAX) return BATCHPLAN_ERROR_OVERFLOW;
    const batchplan_status status = Launch(ReduceChunks, ChunkPlaces(row), kLanes, stream, row,
                                           reduction, error_word, workspace);
    if (status != BATCHPLAN_OK) return status;
  }
  if (row.num_sequences > 0 && PackedCells(row) > kChunk) {
    const uint32_t blocks = (row.num_sequences + kCombineThreads - 1) / kCombineThreads;
    const batchplan_status status =
        Launch(CombineChunks, blocks, kCombineThreads, stream, row, reduction, workspace);
    if (status != BATCHPLAN_OK) return status;
  }
  if (!AsksForTotals(reduction)) return BATCHPLAN_OK;
  return Launch(AddTotals, 1, kLanes, stream, row.num_sequences, reduction, workspace.totals);
}

}  // namespace batchplan::kernels::cuda
