#include <cuda_runtime.h>

#include "src/backends.h"
#include "src/cuda/launch.h"
#include "src/error_word.h"
#include "src/reduce_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels::cuda {
namespace {

// Enough blocks to fill any device; each takes a sequence after the other.
constexpr uint32_t kMostBlocks = 4096;

// On one multiprocessor: half of its threads, so that registers are left to work with.
constexpr uint32_t kResidentBlocks = 8;

// One thread a lane: adds up `count` terms in the order that reduce_arithmetic.h states. The result
// is valid in thread 0; every thread must call.
template <typename Sums, typename Term>
__device__ Sums AddUp(Sums (&lanes)[kLanes], int64_t count, const Term& term) {
  Sums lane{};
  for (int64_t i = threadIdx.x; i < count; i += kLanes) lane = lane + term(i);
  __syncthreads();  // the last call's reader is done with `lanes`
  lanes[threadIdx.x] = lane;
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) lanes[threadIdx.x] = lanes[threadIdx.x] + lanes[threadIdx.x + half];
  }
  return threadIdx.x == 0 ? lanes[0] : Sums{};
}

__global__ void __launch_bounds__(kLanes, kResidentBlocks)
    ReduceKernel(Row row, batchplan_reduction reduction, batchplan_status* error_word,
                 SequenceTotals* totals) {
  __shared__ SequenceSums lanes[kLanes];
  for (uint32_t sequence = blockIdx.x; sequence < row.num_sequences; sequence += gridDim.x) {
    if (threadIdx.x == 0) {
      const batchplan_status status = CheckSequence(row, sequence);
      if (status != BATCHPLAN_OK) ReportError(error_word, status);
    }
    const VisitedTokens tokens = TokensToVisit(row, sequence);
    const SequenceSums sums = AddUp(
        lanes, tokens.count, [&](int64_t visit) { return TermOf(row, reduction, tokens, visit); });
    if (threadIdx.x == 0) WriteSequence(reduction, totals, sequence, sums);
  }
}

__global__ void __launch_bounds__(kLanes)
    TotalKernel(uint32_t num_sequences, batchplan_reduction reduction,
                const SequenceTotals* totals) {
  __shared__ SequenceTotals lanes[kLanes];
  const SequenceTotals total = AddUp(lanes, num_sequences, [&](int64_t i) { return totals[i]; });
  if (threadIdx.x == 0) WriteTotals(reduction, total);
}

}  // namespace

batchplan_status Reduce(const Row& row, const batchplan_reduction& reduction,
                        batchplan_status* error_word, SequenceTotals* totals, void* stream) {
  if (row.num_sequences > 0) {
    const uint32_t blocks = Least(row.num_sequences, kMostBlocks);
    const batchplan_status status =
        Launch(ReduceKernel, blocks, kLanes, stream, row, reduction, error_word, totals);
    if (status != BATCHPLAN_OK) return status;
  }
  if (!AsksForTotals(reduction)) return BATCHPLAN_OK;
  return Launch(TotalKernel, 1, kLanes, stream, row.num_sequences, reduction, totals);
}

}  // namespace batchplan::kernels::cuda
