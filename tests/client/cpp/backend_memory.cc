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

void* AllocateManaged([[maybe_unused]] size_t bytes) {
#ifdef BATCHPLAN_TESTS_WITH_CUDA
  void* memory = nullptr;
  if (cudaMallocManaged(&memory, bytes) == cudaSuccess) return memory;
#endif
  std::fputs("no managed memory\n", stderr);
  std::abort();
}

void FreeManaged([[maybe_unused]] void* memory, size_t /*bytes*/) {
#ifdef BATCHPLAN_TESTS_WITH_CUDA
  static_cast<void>(cudaFree(memory));
#endif
}

}  // namespace

WorkerAllocator AllocatorOf(batchplan_backend backend) {
  if (backend == BATCHPLAN_BACKEND_CUDA) return {AllocateManaged, FreeManaged};
  return {[](size_t bytes) { return ::operator new(bytes, kAlignment); },
          [](void* memory, size_t /*bytes*/) { ::operator delete(memory, kAlignment); }};
}

}  // namespace batchplan
