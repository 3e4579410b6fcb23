// Fields of a micro-batch into its packed row, and out of it again.
//
// A field is one tensor per token: tokens, a mask, advantages, hidden states. All fields of a
// micro-batch move in one launch, whatever their types:
//
//   batchplan_row row = {.cu_seqlens = cu_seqlens, .cu_seqlens_padded = cu_seqlens_padded,
//                        .num_sequences = n, .options = options, .context_parallel_rank = 0};
//   batchplan_sequences sequences = {.sequence_index = index, .num_rows = batch_size};
//   batchplan_field fields[] = {
//       {.element_size = 8, .elements_per_token = 1, .source = input_ids, .width = max_length,
//        .destination = packed_ids},
//       {.content = BATCHPLAN_CONTENT_POSITION_IDS, .element_size = 8, .elements_per_token = 1,
//        .destination = position_ids}};
//   batchplan_pack(backend, &row, &sequences, fields, 2, error_word, stream);
//
//   input_ids [4, 8]       packed, one rank          packed, CP = 2, zig-zag
//   a a . . . . . .
//   b b b b . . . .        a a p p b b b b           rank 0: a p b b c c p p d p
//   c c c c c c . .        c c c c c c p p           rank 1: a p b b c c c c p p
//   d . . . . . . .        d p p p
//
// Every element of a packed destination is written: the tokens, the padding of each sequence, and
// the tail. The source is not read between a sequence's end and `width`.
//
// In a row that shares prefixes (least_shared) the packed side has the new tokens of each sequence,
// and the unpacked side whole sequences, several of which get one token of the row. Position ids
// are places in the sequence; sequence ids name the sequence that laid the token. A token may have
// several next tokens, and its sequences may differ in advantage, so labels, losses and their
// weights belong to the unpacked side: token_shift other than 0 and BATCHPLAN_CONTENT_PER_SEQUENCE
// are BATCHPLAN_ERROR_SHARED_PREFIXES.
//
// Cost: every byte is read once and written once. Tokens of 128 bytes or more move in 16-byte words
// at any address, in runs of tokens that lie end to end on both sides; where source and destination
// are not aligned alike, each word takes two reads, one of them out of the cache. Narrower ones
// move in words as wide as their alignment allows, at most 8 bytes; what a token's place needs is
// looked up once for all fields of equally many words a token (to unpack to padded rows, equally
// wide ones).

#ifndef BATCHPLAN_KERNELS_PACK_H_
#define BATCHPLAN_KERNELS_PACK_H_

#include "batchplan/kernels/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

// The largest number of fields of one call.
#define BATCHPLAN_MAX_FIELDS 32
// The most bytes of one token of one field.
#define BATCHPLAN_MAX_TOKEN_BYTES (UINT32_C(1) << 30)
// As context_parallel_rank: the rows of all ranks, [context_parallel, row_width / context_parallel,
// ...], which is what an all-gather of the ranks' rows gives.
#define BATCHPLAN_ALL_RANKS UINT32_MAX

// The packed row: the arguments of batchplan_compute_layout and its result.
typedef struct batchplan_row {
  // [num_sequences + 1] In the backend's memory. Offsets that do not begin at 0, descend, leave a
  // sequence less room than it is long, do not divide by what the sharding needs or pass row_width
  // are BATCHPLAN_ERROR_LAYOUT in the error word. May be NULL if num_sequences is 0.
  const int32_t* cu_seqlens;
  const int32_t* cu_seqlens_padded;
  uint32_t num_sequences;
  batchplan_layout_options options;
  // Below options.context_parallel, or BATCHPLAN_ALL_RANKS; else
  // BATCHPLAN_ERROR_CONTEXT_PARALLEL_RANK. The rank whose row the packed side of each field is.
  uint32_t context_parallel_rank;
  // [num_sequences] Of a row that shares prefixes, whose cu_seqlens_padded is cu_new; else NULL (of
  // no sequences too, it says whether they are shared). A sequence shares as many tokens as it is
  // longer than its place in the row. Entries that don't fit are BATCHPLAN_ERROR_LAYOUT in the
  // error word.
  const int32_t* least_shared;
} batchplan_row;

// The unpacked side: where a sequence's tokens lie, the same for all fields.
typedef struct batchplan_sequences {
  // [num_sequences] The row of each sequence; the micro-batch's part of the plan's
  // `sequence_index`. NULL: sequence s is row s. When unpacking, no two may be equal: nothing
  // checks that, and such a row then holds bytes of either. A sequence with tokens but without a
  // row below num_rows is BATCHPLAN_ERROR_SEQUENCE_INDEX in the error word; one of no tokens has no
  // row then, which is how a captured graph leaves sequences out.
  const uint32_t* sequence_index;
  // NULL: padded fields, [num_rows, width, ...]. Else ragged fields, [num_tokens, ...], row i from
  // token offsets[i] to offsets[i + 1], ascending; [num_rows + 1]. A row may be longer than its
  // sequence (the rest is neither read nor written); a shorter one, or one outside of num_tokens,
  // is BATCHPLAN_ERROR_OFFSETS in the error word.
  const int64_t* offsets;
  // Rows of each field. Up to 2^32 are addressed.
  uint64_t num_rows;
  // Tokens of each ragged field; unused if padded.
  uint64_t num_tokens;
} batchplan_sequences;

// What a packed destination is filled with.
typedef int32_t batchplan_content;
enum {
  // The tokens of `source`.
  BATCHPLAN_CONTENT_TOKENS = 0,
  // `source` has one entry a row, [num_rows, elements_per_token]: each token gets its sequence's.
  // A group's advantage, or the gradient of a sum over a sequence.
  BATCHPLAN_CONTENT_PER_SEQUENCE = 1,
  // Integers, no source: the position in the padded sequence, from 0, going on through its padding.
  // The tail counts from 0 as a sequence of its own.
  BATCHPLAN_CONTENT_POSITION_IDS = 2,
  // Integers, no source: the sequence's place in the micro-batch, in its padding too; -1 in the
  // tail.
  BATCHPLAN_CONTENT_SEQUENCE_IDS = 3,
  // Integers, no source, unpacked from a row that shares prefixes: the place in the row of the
  // token before, and so of the logits that predict this one; -1 for the first token and behind the
  // sequence.
  BATCHPLAN_CONTENT_PREDECESSORS = 4
};

// The type of elements, for computing with them; moving them needs only their size.
typedef int32_t batchplan_data_type;
enum {
  BATCHPLAN_FLOAT32 = 0,
  BATCHPLAN_FLOAT64 = 1,
  BATCHPLAN_FLOAT16 = 2,
  BATCHPLAN_BFLOAT16 = 3,
  // A boolean mask too; any value counts as itself.
  BATCHPLAN_UINT8 = 4,
  BATCHPLAN_INT32 = 5,
  BATCHPLAN_INT64 = 6
};

// Read on the host during the call; the tensors lie in the backend's memory.
typedef struct batchplan_field {
  // Else BATCHPLAN_ERROR_CONTENT. batchplan_pack knows all but BATCHPLAN_CONTENT_PREDECESSORS;
  // batchplan_unpack knows BATCHPLAN_CONTENT_TOKENS and, with shared prefixes,
  // BATCHPLAN_CONTENT_PREDECESSORS.
  batchplan_content content;
  // Bytes of an element: 1, 2, 4, 8 or 16, for what has no source 4 or 8; else
  // BATCHPLAN_ERROR_ELEMENT_SIZE. Pointers are aligned to it, or BATCHPLAN_ERROR_MISALIGNED.
  uint32_t element_size;
  // The product of the dimensions behind [.., token]: 1, or the hidden size. At least 1, for what
  // has no source exactly 1, and a token has at most BATCHPLAN_MAX_TOKEN_BYTES; else
  // BATCHPLAN_ERROR_TOKEN_SIZE.
  uint64_t elements_per_token;
  // To pack: the sequences, and the packed [row_width / context_parallel, elements_per_token]. To
  // unpack: the packed row, and the sequences. NULL if there is nothing to read, or to write.
  const void* source;
  void* destination;
  // Tokens of a padded row of this field, at most 2^31 - 1, else BATCHPLAN_ERROR_WIDTH; a sequence
  // longer than it is BATCHPLAN_ERROR_SEQUENCE_TOO_LONG in the error word. Only for tokens and
  // predecessors of padded rows; token_shift is only for tokens.
  uint64_t width;
  // The packed place of token t holds token t + token_shift, if the sequence has it, else
  // pad_value. 1 packs next-token labels (pad -100); unpacking with 1 puts log-probabilities, which
  // stand where the token was predicted, where the token stands.
  int32_t token_shift;
  // One element, in the first element_size bytes: the value of padding. When unpacking, that of
  // places without a packed token; 0 for gradients.
  unsigned char pad_value[16];
} batchplan_field;

// Fills the packed destination of every field. One launch.
//
// row, sequences, fields   Read on the host during the call. `sequences` may be NULL if no field
//                          has a source.
// num_fields               At most BATCHPLAN_MAX_FIELDS, else BATCHPLAN_ERROR_FIELD_COUNT; 0 does
//                          nothing.
// error_word, stream       As for batchplan_compute_layout.
//
// Errors that are returned: BATCHPLAN_ERROR_NULL_POINTER, what the structs and
// batchplan_layout_options name, BATCHPLAN_ERROR_OVERFLOW for more than a grid of thread blocks can
// write, and BATCHPLAN_ERROR_CUDA. After an error in the error word the content of the destinations
// is undefined, but nothing that was there before: if the word held the error already, padding,
// position 0 and sequence -1; in the call that found it, these or tokens.
batchplan_status batchplan_pack(batchplan_backend backend, const batchplan_row* row,
                                const batchplan_sequences* sequences, const batchplan_field* fields,
                                uint32_t num_fields, batchplan_status* error_word, void* stream);

// The inverse: fills the rows of the micro-batch's sequences from the packed row of every field.
// Unless prefixes are shared, also the gradient of batchplan_pack for BATCHPLAN_CONTENT_TOKENS,
// with a pad_value of 0. One launch, each element written by one thread, no atomics: the same bytes
// every time.
//
// A padded row is written over its whole width, a ragged one up to the sequence's length; rows of
// no sequence of the micro-batch are left alone. With one rank's row under context parallelism the
// tokens of the other ranks get pad_value (summed over the ranks, gradients are then whole); with
// BATCHPLAN_ALL_RANKS whole sequences come back. While the error word holds an error nothing is
// written.
//
// Arguments and errors are those of batchplan_pack.
batchplan_status batchplan_unpack(batchplan_backend backend, const batchplan_row* row,
                                  const batchplan_sequences* sequences,
                                  const batchplan_field* fields, uint32_t num_fields,
                                  batchplan_status* error_word, void* stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BATCHPLAN_KERNELS_PACK_H_
