#include "tests/support/counted_memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace batchplan::testing {
namespace {

thread_local bool is_counting = false;
thread_local uint64_t held = 0;
thread_local uint64_t most_held = 0;

void* Allocate(size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  if (is_counting) {
    held += malloc_usable_size(memory);
    most_held = std::max(most_held, held);
  }
  return memory;
}

void Free(void* memory) {
  if (is_counting && memory != nullptr) held -= std::min(held, malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

CountedMemory::CountedMemory() {
  held = most_held = 0;
  is_counting = true;
}
CountedMemory::~CountedMemory() { is_counting = false; }

uint64_t CountedMemory::peak() const { return most_held; }

}  // namespace batchplan::testing

void* operator new(size_t bytes) { return batchplan::testing::Allocate(bytes); }
void* operator new[](size_t bytes) { return batchplan::testing::Allocate(bytes); }
void operator delete(void* memory) noexcept { batchplan::testing::Free(memory); }
void operator delete[](void* memory) noexcept { batchplan::testing::Free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { batchplan::testing::Free(memory); }
void operator delete[](void* memory, size_t /*bytes*/) noexcept {
  batchplan::testing::Free(memory);
}
