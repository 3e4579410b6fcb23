#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#ifdef BATCHPLAN_KERNELS_WITH_CUDA
#include <cuda_runtime_api.h>
#endif
#ifdef BATCHPLAN_KERNELS_INTERPRETED
#include "ptx/executor.h"
#include "ptx/memory.h"
#endif
// The macros of GCC and of clang.
#ifdef __SANITIZE_ADDRESS__
#define BATCHPLAN_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BATCHPLAN_ADDRESS_SANITIZER
#endif
#endif
#ifdef BATCHPLAN_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
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

// Copies between any two memories; waits for the device.
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

// With the address sanitizer, even reading the guard behind an array is an error.
void Poison([[maybe_unused]] const std::byte* guard) {
#ifdef BATCHPLAN_ADDRESS_SANITIZER
  ASAN_POISON_MEMORY_REGION(guard, kGuardBytes);
#endif
}
void Unpoison([[maybe_unused]] const std::byte* guard) {
#ifdef BATCHPLAN_ADDRESS_SANITIZER
  ASAN_UNPOISON_MEMORY_REGION(guard, kGuardBytes);
#endif
}

}  // namespace

Memory::Memory(batchplan_backend backend, size_t bytes, size_t misalignment)
    : backend_(backend),
      size_(bytes),
      offset_(kGuardBytes + misalignment),
      block_(Allocate(backend, offset_ + bytes + kGuardBytes)) {
  const std::vector<std::byte> guards(offset_ + bytes + kGuardBytes, kGuard);
  Copy(backend_, block_, guards.data(), guards.size());
  Poison(GuardBehind());
#ifdef BATCHPLAN_KERNELS_INTERPRETED
  if (IsOnDevice(backend_)) ptx::DeviceMemory::Get().Restrict(data(), size_);
#endif
}

Memory::Memory(Memory&& other) noexcept
    : backend_(other.backend_),
      size_(other.size_),
      offset_(other.offset_),
      block_(std::exchange(other.block_, nullptr)) {}

Memory::~Memory() {
  if (block_ == nullptr) return;
  Unpoison(GuardBehind());
  Free(backend_, block_);
}

const std::byte* Memory::GuardBehind() const {
  return static_cast<const std::byte*>(block_) + offset_ + size_;
}

void Memory::Write(const void* source, size_t bytes) { Copy(backend_, data(), source, bytes); }

void Memory::Read(void* target) {
  std::vector<std::byte> all(offset_ + size_ + kGuardBytes);
  Unpoison(GuardBehind());
  Copy(backend_, all.data(), block_, all.size());
  Poison(GuardBehind());
  const auto is_guard = [](std::byte value) { return value == kGuard; };
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(offset_);
  const auto end = begin + static_cast<std::ptrdiff_t>(size_);
  EXPECT_TRUE(std::all_of(all.begin(), begin, is_guard)) << "written before the array";
  EXPECT_TRUE(std::all_of(end, all.end(), is_guard)) << "written behind the array";
  if (size_ > 0) std::memcpy(target, &*begin, size_);
}

FarMemory::FarMemory(batchplan_backend backend, size_t bytes) : backend_(backend), bytes_(bytes) {
  void* memory = nullptr;
#ifdef BATCHPLAN_KERNELS_WITH_CUDA
  if (IsOnDevice(backend)) {
    Check(cudaMallocManaged(&memory, bytes));
    data_ = static_cast<char*>(memory);
    return;
  }
#endif
  memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  data_ = static_cast<char*>(memory);
}

FarMemory::~FarMemory() {
#ifdef BATCHPLAN_KERNELS_WITH_CUDA
  if (IsOnDevice(backend_)) {
    Free(backend_, data_);
    return;
  }
#endif
  munmap(data_, bytes_);
}

#ifdef BATCHPLAN_KERNELS_INTERPRETED
RacesAllowed::RacesAllowed() { ptx::CurrentLaunchOptions().checks = false; }
RacesAllowed::~RacesAllowed() { ptx::CurrentLaunchOptions().checks = true; }
#else
RacesAllowed::RacesAllowed() = default;
RacesAllowed::~RacesAllowed() = default;
#endif

std::string BackendName(const testing::TestParamInfo<batchplan_backend>& info) {
  return info.param == BATCHPLAN_BACKEND_CUDA ? "cuda" : "host";
}

}  // namespace batchplan::kernels
