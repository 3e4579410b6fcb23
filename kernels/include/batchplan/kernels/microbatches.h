// The micro-batches of one data parallel rank in a plan, in the order they run.
//
// A plan is flat arrays, those of PassPlan in batchplan/v1/plan.proto, in host memory:
//
//   batchplan_microbatch_iterator iterator;
//   batchplan_microbatch microbatch;
//   batchplan_status status = batchplan_rank_microbatches(&plan, rank, &iterator);
//   while (status == BATCHPLAN_OK && batchplan_next_microbatch(&iterator, &microbatch)) {
//     ... microbatch.sequence_index[0 .. microbatch.num_sequences) ...
//   }
//
// Nothing is copied: the plan's arrays stay where they are while the iterator and its micro-batches
// are used. Cost: one pass over the offsets to begin with, then a few instructions each, or one for
// every group of the slot where the plan has context_sizes.
//
// With context_sizes the ranks are one pool, which every slot divides among groups, in the order of
// its ranks. Two slots of sizes 2 1 1 and 4 on a pool of four ranks:
//
//   rank             0  1  2  3
//   slot 0           0  0  1  2     micro-batches, by their place in the plan
//   slot 1           3  3  3  3

#ifndef BATCHPLAN_KERNELS_MICROBATCHES_H_
#define BATCHPLAN_KERNELS_MICROBATCHES_H_

#include "batchplan/kernels/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct batchplan_plan {
  // [num_sequences] The manifest's sequences in execution order, and how long each is planned.
  const uint32_t* sequence_index;
  const uint32_t* sequence_lengths;
  // [num_microbatches + 1] Where each micro-batch begins in sequence_index.
  const uint32_t* microbatch_offsets;
  // [num_microbatches] Tokens of the packed row, or the padded width.
  const uint32_t* row_widths;
  // [num_mini_batches] Micro-batches of every rank.
  const uint32_t* microbatches_per_rank;
  // [num_microbatches] The ranks of each micro-batch's group; NULL: groups do not differ, and a
  // micro-batch is of one data parallel rank.
  const uint32_t* context_sizes;
  uint32_t num_sequences;
  uint32_t num_microbatches;
  uint32_t num_mini_batches;
  // With context_sizes, the ranks of the pool.
  uint32_t data_parallel;
  // [num_sequences] How many first tokens of each sequence stand in the row already; NULL: prefixes
  // are not shared.
  const uint32_t* shared_tokens;
} batchplan_plan;

typedef struct batchplan_microbatch {
  uint32_t mini_batch;
  // Its ordinal among the micro-batches of its rank and mini-batch.
  uint32_t slot;
  // Its place in the plan's arrays, and that of its first sequence.
  uint32_t index;
  uint32_t first_sequence;
  // 0 for an empty micro-batch, which a rank runs so that all ranks have equally many.
  uint32_t num_sequences;
  uint32_t row_width;
  // [num_sequences] Parts of the plan's arrays.
  const uint32_t* sequence_index;
  const uint32_t* sequence_lengths;
  // With context_sizes the ranks of its group and this rank's place in it, as batchplan_row takes
  // them; the group begins at rank data_parallel_rank - context_parallel_rank. Without, 0 and 0:
  // the plan does not know them.
  uint32_t context_parallel;
  uint32_t context_parallel_rank;
  // [num_sequences] A part of the plan's array, as batchplan_compute_layout takes it; NULL if the
  // plan has none.
  const uint32_t* shared_tokens;
} batchplan_microbatch;

// For batchplan_next_microbatch alone.
typedef struct batchplan_microbatch_iterator {
  const batchplan_plan* plan;
  uint32_t data_parallel_rank;
  uint32_t mini_batch;
  uint32_t slot;
  // Micro-batches of the mini-batches before; with context_sizes, of the slots before.
  uint32_t before;
} batchplan_microbatch_iterator;

// Sets `*iterator` before the first micro-batch of `data_parallel_rank`.
//
// BATCHPLAN_ERROR_NULL_POINTER, BATCHPLAN_ERROR_DATA_PARALLEL_RANK if the rank is not below
// data_parallel, or BATCHPLAN_ERROR_PLAN if the arrays do not fit each other: there must be as many
// micro-batches as the counts of the ranks add up to, and offsets that ascend from 0 to
// num_sequences; with context_sizes, as many slots as the counts add up to, in each of which the
// sizes add up to data_parallel and every group begins at a multiple of its size.
batchplan_status batchplan_rank_microbatches(const batchplan_plan* plan,
                                             uint32_t data_parallel_rank,
                                             batchplan_microbatch_iterator* iterator);

// Writes the next micro-batch and returns 1, or returns 0 after the last one.
int batchplan_next_microbatch(batchplan_microbatch_iterator* iterator,
                              batchplan_microbatch* microbatch);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BATCHPLAN_KERNELS_MICROBATCHES_H_
