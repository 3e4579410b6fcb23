// A micro-batch of a plan as tensors: packed, sharded over context parallel ranks, and back, on the
// GPU or on the host. A C API; batchplan/kernels.hpp is a thin C++ layer over it.
//
//   microbatches.h     which micro-batches of the plan are this rank's
//   layout.h           where each sequence begins in the packed row: cu_seqlens and its kin
//   pack.h             many fields into the row in one launch, and the inverse
//   unpack_gradient.h  the gradient of the inverse where prefixes are shared
//   reduce.h           sums and means per sequence
//   copy.h             bytes between host and backend, and waiting for them
//   status.h           backends, and what can be wrong
//
// One step of a worker, the arrays in device memory:
//
//   batchplan_compute_layout(backend, lengths, NULL, n, &options, &layout, error, stream);
//   batchplan_pack(backend, &row, &sequences, fields, num_fields, error, stream);
//   ... the model's forward and loss on the packed row ...
//   batchplan_unpack(backend, &row, &sequences, outputs, num_outputs, error, stream);
//
// Backends: "host" computes on the calling thread and returns when done; "cuda" enqueues on the
// caller's stream of the current device and returns. No function allocates memory or keeps state,
// and only batchplan_wait waits for a device (copies of host memory that is not pinned may). So any
// number of threads may call at once with outputs of their own, and cuda calls can be captured into
// a graph. In a graph, arguments by value or read on the host (number of sequences, options, field
// descriptors) are fixed; device memory (lengths, offsets, sequence_index, the tensors) may change
// between replays. So one graph serves every micro-batch up to its row width: pass the largest
// number of sequences, and for absent ones a length of 0 and UINT32_MAX in sequence_index.
//
// Both backends run the same index arithmetic and give the same bytes. Offsets into tensors are 64
// bits wide; the row itself is below 2^31 tokens, because cu_seqlens are 32-bit everywhere.
//
// Aliasing: no output may overlap an input or another output of the same call.

#ifndef BATCHPLAN_KERNELS_H_
#define BATCHPLAN_KERNELS_H_

// IWYU pragma: begin_exports
#include "batchplan/kernels/copy.h"
#include "batchplan/kernels/layout.h"
#include "batchplan/kernels/microbatches.h"
#include "batchplan/kernels/pack.h"
#include "batchplan/kernels/reduce.h"
#include "batchplan/kernels/status.h"
#include "batchplan/kernels/unpack_gradient.h"
// IWYU pragma: end_exports

#endif  // BATCHPLAN_KERNELS_H_
