// Memory that runs out when a test says so: what includes this takes operator new's place in the
// whole program.
//
//   const ScarceMemory scarce({.after = 3});         // the fourth allocation from now on fails
//   const ScarceMemory scarce({.largest = 4096});    // and any of more bytes than these
//
// Only for the thread that says so, and for as long as the object lives; one at a time.

#ifndef BATCHPLAN_TESTS_SUPPORT_SCARCE_MEMORY_H_
#define BATCHPLAN_TESTS_SUPPORT_SCARCE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <limits>

namespace batchplan::testing {

struct MemoryLimits {
  // Allocations that are served; the one after them fails, and those that follow are served again.
  uint64_t after = std::numeric_limits<uint64_t>::max();
  size_t largest = std::numeric_limits<size_t>::max();
};

class ScarceMemory {
 public:
  explicit ScarceMemory(const MemoryLimits& limits);
  ~ScarceMemory();

  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_SCARCE_MEMORY_H_
