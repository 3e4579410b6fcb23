// Where the tokens of a micro-batch lie, on the GPU or on the host, as a C API.
//
// A packed row holds the sequences of one micro-batch end to end, each padded to a multiple; what
// is left of the row's width is a tail that belongs to no sequence. Lengths 2 4 6 1, multiple 4,
// row width 24 (p: padding, .: tail):
//
//   row                 0 0 p p 1 1 1 1 2 2 2 2 2 2 p p 3 p p p . . . .
//   cu_seqlens_padded   0       4       8               16      20
//   cu_seqlens          0 2 6 12 13
//
//   batchplan_layout_options options = {.length_multiple = 4, .context_parallel = 2,
//                                       .row_width = 24};
//   batchplan_packed_layout layout = {.cu_seqlens = a, .cu_seqlens_padded = b};
//   batchplan_status status = batchplan_compute_layout(
//       BATCHPLAN_BACKEND_HOST, lengths, 4, &options, &layout, NULL, NULL, 0, NULL);
//
// Backends: "host" computes on the calling thread and has returned its results; "cuda" enqueues one
// kernel on the caller's stream of the current device and returns. No function allocates memory,
// waits for a device or keeps state, so any number of threads may call at once with outputs of
// their own, and the cuda calls can be captured into a graph (the number of sequences and the
// options are then fixed; the lengths may change between replays).
//
// Cost: two passes over the lengths. The cuda kernel is one thread block.

#ifndef BATCHPLAN_KERNELS_H_
#define BATCHPLAN_KERNELS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Fixed width, because it is also the type of the error word in device memory.
typedef int32_t batchplan_status;
enum {
  BATCHPLAN_OK = 0,
  BATCHPLAN_ERROR_UNKNOWN_BACKEND = 1,
  BATCHPLAN_ERROR_BACKEND_NOT_BUILT = 2,
  BATCHPLAN_ERROR_NO_DEVICE = 3,
  BATCHPLAN_ERROR_NULL_POINTER = 4,
  BATCHPLAN_ERROR_WORKSPACE_TOO_SMALL = 5,
  BATCHPLAN_ERROR_CONTEXT_PARALLEL = 6,
  BATCHPLAN_ERROR_LENGTH_MULTIPLE = 7,
  BATCHPLAN_ERROR_ROW_WIDTH = 8,
  BATCHPLAN_ERROR_ROW_TOO_NARROW = 9,
  BATCHPLAN_ERROR_OVERFLOW = 10,
  BATCHPLAN_ERROR_CUDA = 11
};

typedef int32_t batchplan_backend;
enum { BATCHPLAN_BACKEND_HOST = 0, BATCHPLAN_BACKEND_CUDA = 1 };

// The largest context parallel size.
#define BATCHPLAN_MAX_CONTEXT_PARALLEL 65536

// An English sentence for `status`, in static memory; never NULL.
const char* batchplan_status_string(batchplan_status status);

// BATCHPLAN_OK if `backend` can be used in this process now; else
// BATCHPLAN_ERROR_BACKEND_NOT_BUILT, BATCHPLAN_ERROR_NO_DEVICE or BATCHPLAN_ERROR_UNKNOWN_BACKEND.
batchplan_status batchplan_backend_status(batchplan_backend backend);

// 1 if batchplan_backend_status says BATCHPLAN_OK, else 0.
int batchplan_backend_available(batchplan_backend backend);

// Read on the host during the call, for every backend.
typedef struct batchplan_layout_options {
  // Each sequence is padded to a multiple of this. At least 1, and divisible by context_parallel,
  // by 2 * context_parallel if that is above 1 (every rank holds two chunks of every sequence);
  // else BATCHPLAN_ERROR_LENGTH_MULTIPLE. The plan's `length_multiple`.
  uint32_t length_multiple;
  // 1 to BATCHPLAN_MAX_CONTEXT_PARALLEL; else BATCHPLAN_ERROR_CONTEXT_PARALLEL.
  uint32_t context_parallel;
  // Tokens of the row, before it is divided among the context parallel ranks. Divisible as
  // length_multiple is; else BATCHPLAN_ERROR_ROW_WIDTH. The plan's entry of `row_widths`; 0 is a
  // row for which there is nothing to place.
  uint32_t row_width;
} batchplan_layout_options;

// The outputs: arrays of the caller, in host memory for "host" and in device memory for "cuda".
// They may not overlap one another, the lengths or the error word. NULL is not written.
typedef struct batchplan_packed_layout {
  // [num_sequences + 1] Running total of the lengths, from 0.
  int32_t* cu_seqlens;
  // [num_sequences + 1] Where each padded sequence begins in the whole row; last, where the tail
  // begins.
  int32_t* cu_seqlens_padded;
  // [num_sequences + 1] cu_seqlens_padded / context_parallel: where the share of each sequence
  // begins in the row of every context parallel rank.
  int32_t* cu_seqlens_padded_per_rank;
  // [1] The largest length, and the largest padded length; 0 without sequences.
  int32_t* max_seqlen;
  int32_t* max_seqlen_padded;
} batchplan_packed_layout;

// Writes to `*size` how many bytes of workspace batchplan_compute_layout needs for up to
// `num_sequences` sequences; at present 0 for every backend.
//
// BATCHPLAN_ERROR_UNKNOWN_BACKEND, or BATCHPLAN_ERROR_NULL_POINTER if `size` is NULL.
batchplan_status batchplan_layout_workspace_size(batchplan_backend backend, uint32_t num_sequences,
                                                 size_t* size);

// Computes the packed layout of the micro-batch whose sequences have `lengths` tokens.
//
// lengths     [num_sequences], in host memory for "host", in device memory for "cuda"; 0 is a legal
//             length. May be NULL if num_sequences is 0.
// error_word  Receives the status of the first error if it holds BATCHPLAN_OK, and is otherwise
//             left alone: clear it once, launch many, read it at the end of the step. In device
//             memory and required for "cuda", where errors in the lengths are found after the call
//             has returned; in host memory and optional for "host".
// workspace   The backend's memory, workspace_size bytes, aligned to 256; free again when the work
//             of the call is done. May be NULL if the size is 0.
// stream      A cudaStream_t, NULL for the default stream. Ignored by "host".
//
// Errors in the arguments are returned and nothing is written: BATCHPLAN_ERROR_NULL_POINTER,
// BATCHPLAN_ERROR_WORKSPACE_TOO_SMALL, what batchplan_layout_options names, and
// BATCHPLAN_ERROR_OVERFLOW if row_width or num_sequences does not fit into an int32_t. An absent
// backend returns what batchplan_backend_status does, a failed launch BATCHPLAN_ERROR_CUDA (the
// CUDA runtime's cudaGetLastError knows more).
//
// Errors in the lengths are returned by "host" and reach the error word of both:
// BATCHPLAN_ERROR_OVERFLOW if the padded total does not fit into an int32_t, else
// BATCHPLAN_ERROR_ROW_TOO_NARROW if it is above row_width. All outputs are then zeros, a layout of
// empty sequences, so that work already enqueued behind this call touches nothing.
batchplan_status batchplan_compute_layout(batchplan_backend backend, const uint32_t* lengths,
                                          uint32_t num_sequences,
                                          const batchplan_layout_options* options,
                                          const batchplan_packed_layout* layout,
                                          batchplan_status* error_word, void* workspace,
                                          size_t workspace_size, void* stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BATCHPLAN_KERNELS_H_
