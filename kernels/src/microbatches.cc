#include "batchplan/kernels/microbatches.h"

#include <cstddef>
#include <cstdint>

namespace {

bool HasNullPointer(const batchplan_plan& plan) {
  return (plan.num_sequences > 0 &&
          (plan.sequence_index == nullptr || plan.sequence_lengths == nullptr)) ||
         (plan.num_microbatches > 0 &&
          (plan.microbatch_offsets == nullptr || plan.row_widths == nullptr)) ||
         (plan.num_mini_batches > 0 && plan.microbatches_per_rank == nullptr);
}

// Whether the groups of the micro-batches form exactly `slots` slots of the pool.
bool GroupsFit(const batchplan_plan& plan, uint64_t slots) {
  // The pool's rank at which the next group begins.
  uint32_t rank = 0;
  for (uint32_t i = 0; i < plan.num_microbatches; ++i) {
    const uint32_t size = plan.context_sizes[i];
    if (size == 0 || rank % size != 0 || size > plan.data_parallel - rank) return false;
    rank += size;
    if (rank == plan.data_parallel) {
      rank = 0;
      if (slots-- == 0) return false;
    }
  }
  return rank == 0 && slots == 0;
}

// Whether the ranks' counts add up to the plan's micro-batches. Summands are below 2^32, and a sum
// that is too large ends the loop, so that 64 bits suffice.
bool CountsFit(const batchplan_plan& plan) {
  uint64_t per_rank = 0;
  for (uint32_t mini_batch = 0; mini_batch < plan.num_mini_batches; ++mini_batch) {
    per_rank += plan.microbatches_per_rank[mini_batch];
    if (per_rank > plan.num_microbatches) return false;
  }
  if (plan.context_sizes != nullptr) return GroupsFit(plan, per_rank);
  return per_rank * plan.data_parallel == plan.num_microbatches;
}

bool OffsetsFit(const batchplan_plan& plan) {
  const uint32_t* offsets = plan.microbatch_offsets;
  if (offsets == nullptr) return plan.num_sequences == 0;
  if (offsets[0] != 0) return false;
  for (size_t i = 0; i < plan.num_microbatches; ++i) {
    if (offsets[i + 1] < offsets[i]) return false;
  }
  return offsets[plan.num_microbatches] == plan.num_sequences;
}

// Finds the rank's micro-batch in the slot that begins at `before`, sets its group, and moves
// `before` to the next slot.
uint32_t FindGroup(batchplan_microbatch_iterator& iterator, batchplan_microbatch& microbatch) {
  const batchplan_plan& plan = *iterator.plan;
  uint32_t found = iterator.before;
  for (uint32_t rank = 0; rank < plan.data_parallel; ++iterator.before) {
    const uint32_t size = plan.context_sizes[iterator.before];
    if (rank <= iterator.data_parallel_rank && iterator.data_parallel_rank - rank < size) {
      found = iterator.before;
      microbatch.context_parallel = size;
      microbatch.context_parallel_rank = iterator.data_parallel_rank - rank;
    }
    rank += size;
  }
  return found;
}

}  // namespace

batchplan_status batchplan_rank_microbatches(const batchplan_plan* plan,
                                             uint32_t data_parallel_rank,
                                             batchplan_microbatch_iterator* iterator) {
  if (plan == nullptr || iterator == nullptr || HasNullPointer(*plan)) {
    return BATCHPLAN_ERROR_NULL_POINTER;
  }
  if (data_parallel_rank >= plan->data_parallel) return BATCHPLAN_ERROR_DATA_PARALLEL_RANK;
  if (!CountsFit(*plan) || !OffsetsFit(*plan)) return BATCHPLAN_ERROR_PLAN;
  *iterator = {plan, data_parallel_rank, 0, 0, 0};
  return BATCHPLAN_OK;
}

int batchplan_next_microbatch(batchplan_microbatch_iterator* iterator,
                              batchplan_microbatch* microbatch) {
  if (iterator == nullptr || iterator->plan == nullptr || microbatch == nullptr) return 0;
  const batchplan_plan& plan = *iterator->plan;
  const bool grouped = plan.context_sizes != nullptr;
  // Goes to the next mini-batch after the last slot; skips mini-batches without micro-batches.
  while (iterator->mini_batch < plan.num_mini_batches &&
         iterator->slot >= plan.microbatches_per_rank[iterator->mini_batch]) {
    if (!grouped) {
      iterator->before += plan.microbatches_per_rank[iterator->mini_batch] * plan.data_parallel;
    }
    ++iterator->mini_batch;
    iterator->slot = 0;
  }
  if (iterator->mini_batch >= plan.num_mini_batches) return 0;

  const uint32_t count = plan.microbatches_per_rank[iterator->mini_batch];
  uint32_t index = iterator->before + iterator->data_parallel_rank * count + iterator->slot;
  microbatch->context_parallel = 0;
  microbatch->context_parallel_rank = 0;
  if (grouped) index = FindGroup(*iterator, *microbatch);
  const uint32_t begin = plan.microbatch_offsets[index];
  microbatch->mini_batch = iterator->mini_batch;
  microbatch->slot = iterator->slot;
  microbatch->index = index;
  microbatch->first_sequence = begin;
  microbatch->num_sequences = plan.microbatch_offsets[index + 1] - begin;
  microbatch->row_width = plan.row_widths[index];
  microbatch->sequence_index = plan.num_sequences > 0 ? plan.sequence_index + begin : nullptr;
  microbatch->sequence_lengths = plan.num_sequences > 0 ? plan.sequence_lengths + begin : nullptr;
  microbatch->shared_tokens = plan.shared_tokens != nullptr ? plan.shared_tokens + begin : nullptr;
  ++iterator->slot;
  return 1;
}
