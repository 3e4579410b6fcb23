// The gradient of batchplan_unpack for a row that shares prefixes: the gradient of a token is the
// sum over the sequences that got it.
//
// The sequences of a token are a run: the one that laid it, and those behind it as long as they
// share more tokens than its place. One thread adds them up in order. So there are no atomics, and
// the same bits every time and on either backend (a NaN is a NaN, of whatever bits).
//
// For a row that shares nothing the gradient is batchplan_pack with a pad_value of 0.
//
// Cost: every byte is read once and written once.

#ifndef BATCHPLAN_KERNELS_UNPACK_GRADIENT_H_
#define BATCHPLAN_KERNELS_UNPACK_GRADIENT_H_

#include "batchplan/kernels/pack.h"

#ifdef __cplusplus
extern "C" {
#endif

// One tensor, in the backend's memory, aligned to its elements, or BATCHPLAN_ERROR_MISALIGNED.
typedef struct batchplan_gradient {
  // BATCHPLAN_FLOAT16, BATCHPLAN_BFLOAT16, BATCHPLAN_FLOAT32 or BATCHPLAN_FLOAT64; else
  // BATCHPLAN_ERROR_DATA_TYPE. The first two are added up in float, and rounded once.
  batchplan_data_type data_type;
  // As in batchplan_field.
  uint64_t elements_per_token;
  uint64_t width;
  // The gradient of the sequences, laid out as by batchplan_unpack. What is behind a sequence is
  // not read.
  const void* source;
  // [row_width, elements_per_token] The gradient of the row: 0 in the tail.
  void* destination;
} batchplan_gradient;

// Fills the destination. One launch.
//
// row   Shares prefixes, or BATCHPLAN_ERROR_NULL_POINTER: least_shared is not NULL.
//
// Other arguments and errors are those of batchplan_pack. While the error word holds an error the
// destination is filled with 0.
batchplan_status batchplan_unpack_gradient(batchplan_backend backend, const batchplan_row* row,
                                           const batchplan_sequences* sequences,
                                           const batchplan_gradient* gradient,
                                           batchplan_status* error_word, void* stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BATCHPLAN_KERNELS_UNPACK_GRADIENT_H_
