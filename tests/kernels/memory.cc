#include "memory.h"

#include <algorithm>
#include <cstdlib>

#ifdef BATCHPLAN_KERNELS_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace batchplan::kernels {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xa5};

#ifdef BATCHPLAN_KERNELS_WITH_CUDA
void Check(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

bool IsOnDevice(batchplan_backend backend) { return backend == BATCHPLAN_BACKEND_CUDA; }
#endif

void* Allocate(batchplan_backend backend, size_t bytes) {
  void* block = nullptr;
#ifdef BATCHPLAN_KERNELS_WITH_CUDA
  if (IsOnDevice(backend)) {
    Check(cudaMalloc(&block, bytes));
    return block;
  }
#endif
  static_cast<void>(backend);
  block = std::aligned_alloc(kGuardBytes, (bytes + kGuardBytes - 1) / kGuardBytes * kGuardBytes);
  return block;
}

void Free(batchplan_backend backend, void* block) {
#ifdef BATCHPLAN_KERNELS_WITH_CUDA
  if (IsOnDevice(backend)) {
    static_cast<void>(cudaFree(block));
    return;
  }
#endif
  static_cast<void>(backend);
  std::free(block);
}

// Between any two memories; waits for the device.
void Copy(batchplan_backend backend, void* target, const void* source, size_t bytes) {
  if (bytes == 0) return;
#ifdef BATCHPLAN_KERNELS_WITH_CUDA
  if (IsOnDevice(backend)) {
    Check(cudaDeviceSynchronize());
    Check(cudaMemcpy(target, source, bytes, cudaMemcpyDefault));
    return;
  }
#endif
  static_cast<void>(backend);
  std::memcpy(target, source, bytes);
}

}  // namespace

Memory::Memory(batchplan_backend backend, size_t bytes, size_t misalignment)
    : backend_(backend),
      size_(bytes),
      offset_(kGuardBytes + misalignment),
      block_(Allocate(backend, offset_ + bytes + kGuardBytes)) {
  const std::vector<std::byte> guards(offset_ + bytes + kGuardBytes, kGuard);
  Copy(backend_, block_, guards.data(), guards.size());
}

Memory::~Memory() { Free(backend_, block_); }

void Memory::Write(const void* source, size_t bytes) { Copy(backend_, data(), source, bytes); }

void Memory::Read(void* target) {
  std::vector<std::byte> all(offset_ + size_ + kGuardBytes);
  Copy(backend_, all.data(), block_, all.size());
  const auto is_guard = [](std::byte value) { return value == kGuard; };
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(offset_);
  const auto end = begin + static_cast<std::ptrdiff_t>(size_);
  EXPECT_TRUE(std::all_of(all.begin(), begin, is_guard)) << "written before the array";
  EXPECT_TRUE(std::all_of(end, all.end(), is_guard)) << "written behind the array";
  if (size_ > 0) std::memcpy(target, &*begin, size_);
}

std::string BackendName(const testing::TestParamInfo<batchplan_backend>& info) {
  return info.param == BATCHPLAN_BACKEND_CUDA ? "cuda" : "host";
}

}  // namespace batchplan::kernels
