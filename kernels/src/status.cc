#include "batchplan/kernels/status.h"

const char* batchplan_status_string(batchplan_status status) {
  switch (status) {
    case BATCHPLAN_OK:
      return "no error";
    case BATCHPLAN_ERROR_UNKNOWN_BACKEND:
      return "this number names no backend";
    case BATCHPLAN_ERROR_BACKEND_NOT_BUILT:
      return "this library was built without the CUDA backend";
    case BATCHPLAN_ERROR_NO_DEVICE:
      return "no CUDA device that this build has code for, or no driver for it, was found";
    case BATCHPLAN_ERROR_NULL_POINTER:
      return "a required pointer is NULL";
    case BATCHPLAN_ERROR_WORKSPACE_TOO_SMALL:
      return "the workspace is smaller than the workspace size query asks for";
    case BATCHPLAN_ERROR_CONTEXT_PARALLEL:
      return "context_parallel is not between 1 and 65536";
    case BATCHPLAN_ERROR_LENGTH_MULTIPLE:
      return "length_multiple is 0, or not divisible by the chunks of the context parallel "
             "sharding";
    case BATCHPLAN_ERROR_ROW_WIDTH:
      return "row_width is not divisible by the chunks of the context parallel sharding";
    case BATCHPLAN_ERROR_ROW_TOO_NARROW:
      return "the padded sequences have more tokens than row_width";
    case BATCHPLAN_ERROR_OVERFLOW:
      return "the row or the number of sequences does not fit into 32-bit signed offsets, or the "
             "destination into a grid of thread blocks";
    case BATCHPLAN_ERROR_CUDA:
      return "the CUDA runtime refused the kernel launch";
    case BATCHPLAN_ERROR_SEQUENCE_WIDTH:
      return "sequence_width is not divisible by the chunks of the context parallel sharding, or "
             "not 0 where prefixes are shared";
    case BATCHPLAN_ERROR_SEQUENCE_TOO_LONG:
      return "a sequence has more tokens than sequence_width, or than the width of a field";
    case BATCHPLAN_ERROR_SHARDING:
      return "this number names no sharding, or context_parallel is above 1 where prefixes are "
             "shared, for which there is none";
    case BATCHPLAN_ERROR_CONTEXT_PARALLEL_RANK:
      return "context_parallel_rank is not below context_parallel";
    case BATCHPLAN_ERROR_LAYOUT:
      return "cu_seqlens and cu_seqlens_padded are not a layout of the row: they do not begin "
             "at 0, descend, leave too little room, do not divide among the ranks, pass "
             "row_width, or share other tokens than least_shared says";
    case BATCHPLAN_ERROR_SEQUENCE_INDEX:
      return "an entry of sequence_index is not below num_rows";
    case BATCHPLAN_ERROR_OFFSETS:
      return "a ragged row has fewer tokens than its sequence, or lies outside of num_tokens";
    case BATCHPLAN_ERROR_FIELD_COUNT:
      return "there are more than 32 fields";
    case BATCHPLAN_ERROR_CONTENT:
      return "this number names no content, or one that is not unpacked";
    case BATCHPLAN_ERROR_ELEMENT_SIZE:
      return "element_size is not 1, 2, 4, 8 or 16, or for ids not 4 or 8";
    case BATCHPLAN_ERROR_TOKEN_SIZE:
      return "elements_per_token is 0, above 1 for ids, or makes a token of more than 2^30 bytes";
    case BATCHPLAN_ERROR_WIDTH:
      return "the width of a field is above 2^31 - 1";
    case BATCHPLAN_ERROR_MISALIGNED:
      return "a pointer is not aligned to the elements it points to";
    case BATCHPLAN_ERROR_DATA_TYPE:
      return "this number names no data type";
    case BATCHPLAN_ERROR_PLAN:
      return "the arrays of the plan do not fit each other";
    case BATCHPLAN_ERROR_DATA_PARALLEL_RANK:
      return "data_parallel_rank is not below data_parallel";
    case BATCHPLAN_ERROR_SHARED_TOKENS:
      return "an entry of shared is above the length of its sequence or of the one before, or is "
             "not 0 for the first sequence";
    case BATCHPLAN_ERROR_SHARED_PREFIXES:
      return "the row shares prefixes: a token has several next ones and is of several sequences, "
             "so that token_shift must be 0, and content per sequence and sums have no meaning";
    default:
      return "unknown status";
  }
}
