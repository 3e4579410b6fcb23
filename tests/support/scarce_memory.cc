#include "tests/support/scarce_memory.h"

#include <cstdlib>
#include <new>

namespace batchplan::testing {
namespace {

thread_local MemoryLimits limits;

void* Allocate(size_t bytes) {
  const bool fails = bytes > limits.largest || limits.after == 0;
  if (limits.after != std::numeric_limits<uint64_t>::max()) --limits.after;
  if (fails) throw std::bad_alloc();
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

ScarceMemory::ScarceMemory(const MemoryLimits& wanted) { limits = wanted; }
ScarceMemory::~ScarceMemory() { limits = {}; }

}  // namespace batchplan::testing

void* operator new(size_t bytes) { return batchplan::testing::Allocate(bytes); }
void* operator new[](size_t bytes) { return batchplan::testing::Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t /*bytes*/) noexcept { std::free(memory); }
