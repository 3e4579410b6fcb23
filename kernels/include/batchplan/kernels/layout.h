// Where the sequences of a micro-batch lie in its row.
//
// A packed row holds the sequences end to end, each padded to a multiple; the rest of the row's
// width is a tail that belongs to no sequence. Lengths 2 4 6 1, multiple 4, row width 24 (p:
// padding, .: tail):
//
//   row                 0 0 p p 1 1 1 1 2 2 2 2 2 2 p p 3 p p p . . . .
//   cu_seqlens_padded   0       4       8               16      20
//   cu_seqlens          0 2 6 12 13
//
//   batchplan_layout_options options = {.length_multiple = 4, .context_parallel = 2,
//                                       .row_width = 24};
//   batchplan_packed_layout layout = {.cu_seqlens = a, .cu_seqlens_padded = b};
//   batchplan_status status = batchplan_compute_layout(
//       BATCHPLAN_BACKEND_HOST, lengths, NULL, 4, &options, &layout, NULL, NULL);
//
// The padded layout, [n, width], is the same thing with every sequence padded to one width:
// sequence_width = width, row_width = n * width.
//
// Shared prefixes: a sequence may have its first tokens in common with the one before it. They
// stand in the row once, and the row holds what is new in each sequence, without padding between
// them. Lengths 5 7 4, of which 0 3 2 tokens are shared, row width 12:
//
//   sequences           a a a a a   a a a b b b b   a a c c
//   row                 a a a a a b b b b c c .
//   cu_seqlens          0 5 12 16
//   cu_new              0         5       9   11
//   position ids        0 1 2 3 4 3 4 5 6 2 3 0
//   subtree_end         11 11 9 5 5 9 9 9 9 11 11 12
//
// The sequences are in depth-first order of their prefix tree: two of them have in common the least
// that any sequence behind the first, up to the second, shares. Token k of the row is seen by token
// q exactly if k <= q < subtree_end[k].
//
// Cost: two passes over the lengths, and one over the row for subtree_end. "cuda" is one launch of
// one thread block.

#ifndef BATCHPLAN_KERNELS_LAYOUT_H_
#define BATCHPLAN_KERNELS_LAYOUT_H_

#include "batchplan/kernels/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// The largest context parallel size.
#define BATCHPLAN_MAX_CONTEXT_PARALLEL 65536

// Which tokens of a padded sequence of P tokens a context parallel rank holds.
typedef int32_t batchplan_sharding;
enum {
  // Of 2 * CP chunks of P / (2 * CP) tokens, rank r holds chunks r and 2 * CP - 1 - r, in that
  // order: equal work under causal attention. What TransformerEngine, Megatron and NeMo-RL expect.
  BATCHPLAN_SHARDING_ZIGZAG = 0,
  // Of CP chunks of P / CP tokens, rank r holds chunk r.
  BATCHPLAN_SHARDING_CONTIGUOUS = 1
};

// Read on the host during the call, for every backend. Zeros are the defaults of the last two.
typedef struct batchplan_layout_options {
  // Each sequence is padded to a multiple of this, unless prefixes are shared. At least 1, and
  // divisible by what the sharding needs: 2 * context_parallel for zig-zag, context_parallel for
  // contiguous, if that is above 1; else BATCHPLAN_ERROR_LENGTH_MULTIPLE. The plan's
  // `length_multiple`.
  uint32_t length_multiple;
  // 1 to BATCHPLAN_MAX_CONTEXT_PARALLEL; else BATCHPLAN_ERROR_CONTEXT_PARALLEL. Above 1 with shared
  // prefixes is BATCHPLAN_ERROR_SHARDING.
  uint32_t context_parallel;
  // Tokens of the row, before it is divided among the context parallel ranks. Divisible as
  // length_multiple is; else BATCHPLAN_ERROR_ROW_WIDTH. The plan's entry of `row_widths`, in the
  // padded layout times the number of sequences; 0 is a row without sequences.
  uint32_t row_width;
  // If above 0, every sequence is padded to this many tokens, empty ones too, and a longer one is
  // BATCHPLAN_ERROR_SEQUENCE_TOO_LONG. Divisible as length_multiple is, and 0 with shared prefixes;
  // else BATCHPLAN_ERROR_SEQUENCE_WIDTH.
  uint32_t sequence_width;
  // Else BATCHPLAN_ERROR_SHARDING.
  batchplan_sharding sharding;
} batchplan_layout_options;

// The outputs: arrays of the caller in the backend's memory. NULL is not written.
typedef struct batchplan_packed_layout {
  // [num_sequences + 1] Running total of the lengths, from 0.
  int32_t* cu_seqlens;
  // [num_sequences + 1] Where each padded sequence begins in the whole row; last, where the tail
  // begins. With shared prefixes, cu_new.
  int32_t* cu_seqlens_padded;
  // [num_sequences + 1] cu_seqlens_padded / context_parallel: where the shard of each sequence
  // begins in the row of every context parallel rank.
  int32_t* cu_seqlens_padded_per_rank;
  // [1] The largest length, and the largest padded length, with shared prefixes the most tokens
  // that are new in one sequence; 0 without sequences.
  int32_t* max_seqlen;
  int32_t* max_seqlen_padded;
  // [num_sequences + 1] Running total of the tokens that are new in each sequence, from 0: without
  // padding, where they begin in the row.
  int32_t* cu_new;
  // [num_sequences] The least that the sequences i - b + 1 to i share, where b is the largest power
  // of two that divides i + 1: by it, the sequence that laid a token is found in few steps.
  int32_t* least_shared;
  // [row_width] For each token of the row, the place behind the last token that sees it. A
  // sequence's padding belongs to it, and the tail is a sequence of its own. Needs cu_seqlens and
  // cu_seqlens_padded, with shared prefixes least_shared too, to be written as well; else
  // BATCHPLAN_ERROR_NULL_POINTER.
  int32_t* subtree_end;
} batchplan_packed_layout;

// Computes the layout of the micro-batch whose sequences have `lengths` tokens.
//
// lengths     [num_sequences], in memory that the backend reads: for "cuda" device memory, or a
//             host array that is pinned and stays as it is until the work is done. 0 is a legal
//             length. May be NULL if num_sequences is 0.
// shared      [num_sequences], as lengths: how many first tokens each sequence has in common with
//             the one before; the micro-batch's part of the plan's `shared_tokens`. 0 of the first,
//             and at most the length of either. NULL: prefixes are not shared.
// error_word  Required for "cuda", optional for "host"; see status.h.
// stream      A cudaStream_t, NULL for the default stream. Ignored by "host".
//
// Errors that are returned: BATCHPLAN_ERROR_NULL_POINTER, what batchplan_layout_options names,
// BATCHPLAN_ERROR_OVERFLOW if row_width is above 2^31 - 1 or num_sequences not below it,
// BATCHPLAN_ERROR_MISALIGNED, and BATCHPLAN_ERROR_CUDA for a failed launch
// (batchplan_backend_error knows more).
//
// Errors in the lengths: BATCHPLAN_ERROR_SHARED_TOKENS, else BATCHPLAN_ERROR_OVERFLOW if the total
// of the lengths or the padded one does not fit into an int32_t, else
// BATCHPLAN_ERROR_SEQUENCE_TOO_LONG, else BATCHPLAN_ERROR_ROW_TOO_NARROW if the padded total, with
// shared prefixes that of the new tokens, is above row_width. All outputs are then those of empty
// sequences: zeros, but for subtree_end, which is row_width.
batchplan_status batchplan_compute_layout(batchplan_backend backend, const uint32_t* lengths,
                                          const uint32_t* shared, uint32_t num_sequences,
                                          const batchplan_layout_options* options,
                                          const batchplan_packed_layout* layout,
                                          batchplan_status* error_word, void* stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BATCHPLAN_KERNELS_LAYOUT_H_
