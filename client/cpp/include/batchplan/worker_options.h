// A worker's ranks, backend and memory.

#ifndef BATCHPLAN_CLIENT_CPP_WORKER_OPTIONS_H_
#define BATCHPLAN_CLIENT_CPP_WORKER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "batchplan/kernels/layout.h"
#include "batchplan/kernels/status.h"

namespace batchplan {

// Allocates the backend's memory from the framework that owns it. A plan allocates once, when it is
// made, some 20 bytes for each of its rank's sequences, and frees in its destructor. Work on the
// stream may still use the memory then: free it in the stream's order (cudaFreeAsync, a caching
// allocator), or let the plan outlive its work.
struct WorkerAllocator {
  // `bytes` of memory aligned to 256, or nullptr if there is none. `bytes` is more than 0.
  std::function<void*(size_t bytes)> allocate;
  std::function<void(void* memory, size_t bytes)> free;
};

struct WorkerOptions {
  // Below the topology's data_parallel and context_parallel; data_parallel_rank is 0 for a plan
  // that is one rank's slice. With Topology.dynamic_context, also for a slice, data_parallel_rank
  // is a rank of the pool of data_parallel * context_parallel ranks, and context_parallel_rank 0:
  // the place in a group differs from slot to slot.
  uint32_t data_parallel_rank = 0;
  uint32_t context_parallel_rank = 0;
  // The stage of the pipeline that WorkerPlan::Timing is for; below the topology's
  // pipeline_parallel.
  uint32_t pipeline_rank = 0;
  // BATCHPLAN_BACKEND_HOST or BATCHPLAN_BACKEND_CUDA.
  batchplan_backend backend = BATCHPLAN_BACKEND_HOST;
  // A cudaStream_t of the device that is current whenever the plan is used. Unused on the host.
  void* stream = nullptr;
  // Both functions or none. None: the process's own memory, for the host backend alone.
  WorkerAllocator allocator = {};
  // Which tokens of a sequence a context parallel rank holds.
  batchplan_sharding sharding = BATCHPLAN_SHARDING_ZIGZAG;

  // InvalidArgument naming the field; Unimplemented if this build lacks the backend;
  // FailedPrecondition if the machine lacks a device.
  absl::Status Validate() const;
};

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_WORKER_OPTIONS_H_
