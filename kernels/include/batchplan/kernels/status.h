// Backends, and what can be wrong with a call.
//
// An error that the host can see is returned, and nothing is written. An error in the backend's
// memory (lengths, offsets, indices) is found while working: "host" returns it, and both backends
// put it into the error word, in device memory for "cuda". The first error stays; of several in one
// launch, any one. While the word holds an error, batchplan_pack fills its destinations with
// padding, so that nobody reads what was there before, and batchplan_unpack writes nothing, so that
// an invalid layout destroys no row. Clear the word once, launch many, read it at the end of the
// step. Whatever the arrays hold, nothing outside of the outputs is written and nothing outside of
// the inputs is read.

#ifndef BATCHPLAN_KERNELS_STATUS_H_
#define BATCHPLAN_KERNELS_STATUS_H_

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
  BATCHPLAN_ERROR_CUDA = 11,
  BATCHPLAN_ERROR_SEQUENCE_WIDTH = 12,
  BATCHPLAN_ERROR_SEQUENCE_TOO_LONG = 13,
  BATCHPLAN_ERROR_SHARDING = 14,
  BATCHPLAN_ERROR_CONTEXT_PARALLEL_RANK = 15,
  BATCHPLAN_ERROR_LAYOUT = 16,
  BATCHPLAN_ERROR_SEQUENCE_INDEX = 17,
  BATCHPLAN_ERROR_OFFSETS = 18,
  BATCHPLAN_ERROR_FIELD_COUNT = 19,
  BATCHPLAN_ERROR_CONTENT = 20,
  BATCHPLAN_ERROR_ELEMENT_SIZE = 21,
  BATCHPLAN_ERROR_TOKEN_SIZE = 22,
  BATCHPLAN_ERROR_WIDTH = 23,
  BATCHPLAN_ERROR_MISALIGNED = 24,
  BATCHPLAN_ERROR_DATA_TYPE = 25,
  BATCHPLAN_ERROR_PLAN = 26,
  BATCHPLAN_ERROR_DATA_PARALLEL_RANK = 27,
  BATCHPLAN_ERROR_SHARED_TOKENS = 28,
  BATCHPLAN_ERROR_SHARED_PREFIXES = 29
};

typedef int32_t batchplan_backend;
enum { BATCHPLAN_BACKEND_HOST = 0, BATCHPLAN_BACKEND_CUDA = 1 };

// An English sentence for `status`, in static memory; never NULL.
const char* batchplan_status_string(batchplan_status status);

// BATCHPLAN_OK if `backend` can be used in this process now; else
// BATCHPLAN_ERROR_BACKEND_NOT_BUILT, BATCHPLAN_ERROR_NO_DEVICE or BATCHPLAN_ERROR_UNKNOWN_BACKEND.
// For "cuda" it is about the current device: BATCHPLAN_ERROR_NO_DEVICE also if this build has no
// code for it. Makes no context there. Other functions return the same for an absent backend, if
// their arguments are right.
batchplan_status batchplan_backend_status(batchplan_backend backend);

// Why a call on this thread last returned BATCHPLAN_ERROR_CUDA or BATCHPLAN_ERROR_NO_DEVICE, in the
// words of the backend's runtime, in static memory; never NULL, and "" if none did. A launch also
// returns errors of earlier kernels, whoever launched them.
const char* batchplan_backend_error(batchplan_backend backend);

// 1 if batchplan_backend_status says BATCHPLAN_OK, else 0.
int batchplan_backend_available(batchplan_backend backend);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // BATCHPLAN_KERNELS_STATUS_H_
