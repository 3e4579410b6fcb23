// Packing and unpacking: one launch for all fields of a micro-batch.
//
// Narrow fields (narrow_fields.h) are bound by finding the tokens, which is done once for all of
// them. Wide fields (wide_fields.h) are bound by memory: their tokens move in long runs.

#include <cuda_runtime.h>

#include "src/backends.h"
#include "src/cuda/directions.h"
#include "src/cuda/group_fields.h"
#include "src/cuda/launch.h"
#include "src/cuda/move_tasks.h"
#include "src/cuda/narrow_fields.h"
#include "src/cuda/wide_fields.h"
#include "src/error_word.h"
#include "src/move_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels::cuda {
namespace {

// Blocks resident on a multiprocessor: the most for which no thread lacks registers.
constexpr uint32_t ResidentBlocks(bool wide) { return wide ? 3 : 4; }

template <bool kShares>
__device__ void CheckSequences(const Tasks& tasks) {
  // 64 bits, since the grid may have more than 2^32 threads.
  for (uint64_t sequence = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
       sequence < tasks.row.num_sequences; sequence += uint64_t{gridDim.x} * kThreads) {
    const batchplan_status status =
        CheckMove<kShares>(tasks.row, tasks.sequences, tasks.has_rows, tasks.narrowest,
                           static_cast<uint32_t>(sequence));
    if (status != BATCHPLAN_OK) ReportError(tasks.error_word, status);
  }
}

__device__ const FieldGroup& GroupOfBlock(const Tasks& tasks) {
  uint32_t group = tasks.num_groups - 1;
  while (tasks.groups[group].first_block > blockIdx.x) --group;
  return tasks.groups[group];
}

// kWide: whether there may be wide fields. Without them, the kernel needs fewer registers, so that
// more blocks are resident.
template <typename Direction, bool kWide>
__global__ void __launch_bounds__(kThreads, ResidentBlocks(kWide))
    MoveKernel(const __grid_constant__ Tasks tasks) {
  if (tasks.num_groups > 0) {
    const FieldGroup& group = GroupOfBlock(tasks);
    // After an error of an earlier call no tokens are moved.
    const bool holds_error = HoldsError(tasks.error_word);
    // All threads of a warp decide alike; a thread may have read the word before it was set.
    if (Direction::kPadsOnError || __ballot_sync(kWholeWarp, holds_error) == 0) {
      if (!kWide || !group.is_wide) {
        MoveNarrowFields<Direction>(tasks, group, holds_error);
      } else {
        MoveWideField<Direction>(tasks, group, __ballot_sync(kWholeWarp, holds_error) != 0);
      }
    }
  }
  CheckSequences<Direction::kShares>(tasks);
}

template <typename Direction, typename ExtentOf>
batchplan_status Move(const Movement& movement, batchplan_status* error_word, void* stream,
                      const ExtentOf& extent_of) {
  Tasks tasks{};
  tasks.row = movement.row;
  tasks.sequences = movement.sequences;
  tasks.narrowest = movement.narrowest;
  tasks.error_word = error_word;
  tasks.has_rows = movement.has_rows;
  int64_t blocks = FieldGrouping(movement, extent_of, tasks).Form();
  if (blocks > kMostBlocks) return BATCHPLAN_ERROR_OVERFLOW;
  if (blocks == 0 && movement.row.num_sequences == 0) return BATCHPLAN_OK;
  // Without anything to write, one block checks the sequences.
  if (blocks == 0) blocks = 1;
  bool has_wide = false;
  for (uint32_t i = 0; i < tasks.num_groups; ++i) has_wide = has_wide || tasks.groups[i].is_wide;
  const auto kernel = has_wide ? MoveKernel<Direction, true> : MoveKernel<Direction, false>;
  return Launch(kernel, static_cast<uint32_t>(blocks), kThreads, stream, tasks);
}

}  // namespace

batchplan_status Pack(const Movement& movement, batchplan_status* error_word, void* stream) {
  const auto extent_of = [&](const batchplan_field&) {
    return Extent{PackedCells(movement.row), 0};
  };
  return movement.row.least_shared != nullptr
             ? Move<PackShared>(movement, error_word, stream, extent_of)
             : Move<PackTokens>(movement, error_word, stream, extent_of);
}

batchplan_status Unpack(const Movement& movement, batchplan_status* error_word, void* stream) {
  const Row& row = movement.row;
  const bool shares = row.least_shared != nullptr;
  const batchplan_sequences& sequences = movement.sequences;
  // For ragged rows: how many tokens the sequences may have.
  int64_t most_tokens = row.width;
  if (shares)
    most_tokens =
        static_cast<int64_t>(sequences.num_tokens < kMaxOffset ? sequences.num_tokens : kMaxOffset);
  if (row.num_sequences == 0) most_tokens = 0;
  const auto extent_of = [&](const batchplan_field& field) {
    if (sequences.offsets != nullptr) return Extent{most_tokens, 0};
    return Extent{static_cast<int64_t>(row.num_sequences * field.width), field.width};
  };
  return shares ? Move<UnpackShared>(movement, error_word, stream, extent_of)
                : Move<UnpackTokens>(movement, error_word, stream, extent_of);
}

}  // namespace batchplan::kernels::cuda
