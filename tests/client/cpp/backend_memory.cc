#include "tests/client/cpp/backend_memory.h"

#ifdef BATCHPLAN_TESTS_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <new>

namespace batchplan {
namespace {

constexpr std::align_val_t kAlignment{256};

void* AllocateOnHost(size_t bytes) { return ::operator new(bytes, kAlignment); }

void FreeOnHost(void* memory, size_t /*bytes*/) { ::operator delete(memory, kAlignment); }

#ifdef BATCHPLAN_TESTS_WITH_CUDA
void* AllocateManaged(size_t bytes) {
  void* memory = nullptr;
  if (const cudaError_t error = cudaMallocManaged(&memory, bytes); error != cudaSuccess) {
    std::fprintf(stderr, "no managed memory: %s\n", cudaGetErrorString(error));
    std::abort();
  }
  return memory;
}

void FreeManaged(void* memory, size_t /*bytes*/) { static_cast<void>(cudaFree(memory)); }
#endif

}  // namespace

WorkerAllocator AllocatorOf([[maybe_unused]] batchplan_backend backend) {
#ifdef BATCHPLAN_TESTS_WITH_CUDA
  if (backend == BATCHPLAN_BACKEND_CUDA) return {AllocateManaged, FreeManaged};
#endif
  return {AllocateOnHost, FreeOnHost};
}

}  // namespace batchplan
