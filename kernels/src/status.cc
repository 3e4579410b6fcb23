#include "batchplan/kernels.h"

const char* batchplan_status_string(batchplan_status status) {
  switch (status) {
    case BATCHPLAN_OK:
      return "no error";
    case BATCHPLAN_ERROR_UNKNOWN_BACKEND:
      return "this number names no backend";
    case BATCHPLAN_ERROR_BACKEND_NOT_BUILT:
      return "this library was built without the CUDA backend";
    case BATCHPLAN_ERROR_NO_DEVICE:
      return "no CUDA device, or no driver that supports it, was found";
    case BATCHPLAN_ERROR_NULL_POINTER:
      return "a required pointer is NULL";
    case BATCHPLAN_ERROR_WORKSPACE_TOO_SMALL:
      return "the workspace is smaller than the workspace size query asks for";
    case BATCHPLAN_ERROR_CONTEXT_PARALLEL:
      return "context_parallel is not between 1 and 65536";
    case BATCHPLAN_ERROR_LENGTH_MULTIPLE:
      return "length_multiple is 0, or not divisible by 2 * context_parallel";
    case BATCHPLAN_ERROR_ROW_WIDTH:
      return "row_width is not divisible by 2 * context_parallel";
    case BATCHPLAN_ERROR_ROW_TOO_NARROW:
      return "the padded sequences have more tokens than row_width";
    case BATCHPLAN_ERROR_OVERFLOW:
      return "the row or the number of sequences does not fit into 32-bit signed offsets";
    case BATCHPLAN_ERROR_CUDA:
      return "the CUDA runtime refused the kernel launch";
    default:
      return "unknown status";
  }
}
