// Sums and means of a packed field per sequence: the loss of a packed row as the loss of its
// sequences.
//
// The sum of a sequence is computed in double precision, in an order that depends only on the
// tokens' places in the sequence (chunks of 2048, in each 256 running sums, then a tree). So the
// same values give the same bits wherever the sequence stands: packed behind others, in a padded
// [n, width] batch, alone, on the host, on the GPU, or gathered from context parallel ranks (a NaN
// is a NaN, of whatever bits). Padding is not read and tokens of weight 0 add nothing: a NaN there
// does no harm.
//
// Under context parallelism a rank's own row gives its part of each sum: pass `denominators` and
// `total_denominator` of the whole sequences, and add the ranks' results.
//
// Not for rows that share prefixes (BATCHPLAN_ERROR_SHARED_PREFIXES): unpack, and sum the result.
//
// Its gradient is batchplan_pack with BATCHPLAN_CONTENT_PER_SEQUENCE, times the weights.

#ifndef BATCHPLAN_KERNELS_REDUCE_H_
#define BATCHPLAN_KERNELS_REDUCE_H_

#include "batchplan/kernels/pack.h"

#ifdef __cplusplus
extern "C" {
#endif

// Arrays in the backend's memory, aligned to their elements.
typedef struct batchplan_reduction {
  // [row_width / context_parallel], [row_width] for BATCHPLAN_ALL_RANKS. Packed, one a token.
  const void* values;
  batchplan_data_type value_type;
  // As values, or NULL: every token weighs 1. A loss mask, or importance weights.
  const void* weights;
  batchplan_data_type weight_type;
  // [num_sequences] The denominators of the means; NULL: the sequence's own weight sum. [1] The
  // denominator of the totals; NULL: 1. Dividing by 0 gives 0.
  const float* denominators;
  const float* total_denominator;

  // Outputs; NULL is not written.
  // [num_sequences] Sum of value * weight, sum of weight, and sum / denominator.
  float* sums;
  float* weight_sums;
  float* means;
  // [1] Sum of all sums, and of all means, each divided by total_denominator: with the tokens of
  // the global batch there, sum_total is its token-mean loss; with its sequences, mean_total is its
  // sequence-mean loss.
  float* sum_total;
  float* mean_total;
} batchplan_reduction;

// Writes to `*size` how many bytes of workspace batchplan_reduce needs for up to `num_sequences`
// sequences in a row of up to `row_width`.
//
// BATCHPLAN_ERROR_UNKNOWN_BACKEND, or BATCHPLAN_ERROR_NULL_POINTER if `size` is NULL.
batchplan_status batchplan_reduce_workspace_size(batchplan_backend backend, uint32_t num_sequences,
                                                 uint32_t row_width, size_t* size);

// Reduces one packed field: a launch over the chunks of the sequences, one more if one may have
// several, one more for totals.
//
// Arguments as for batchplan_pack, and
//
// workspace   The backend's memory, workspace_size bytes, aligned to 8; free again when the work
//             of the call is done. May be NULL, with a size of 0, if no total is asked for: a
//             sequence's chunks are then one thread block's, one after the other.
//
// Errors: BATCHPLAN_ERROR_NULL_POINTER, BATCHPLAN_ERROR_DATA_TYPE, BATCHPLAN_ERROR_MISALIGNED,
// BATCHPLAN_ERROR_WORKSPACE_TOO_SMALL, BATCHPLAN_ERROR_OVERFLOW for more chunks than a grid has
// thread blocks, what batchplan_row names, and BATCHPLAN_ERROR_CUDA. After an
// error in the error word the outputs hold nothing to rely on.
batchplan_status batchplan_reduce(batchplan_backend backend, const batchplan_row* row,
                                  const batchplan_reduction* reduction,
                                  batchplan_status* error_word, void* workspace,
                                  size_t workspace_size, void* stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BATCHPLAN_KERNELS_REDUCE_H_
