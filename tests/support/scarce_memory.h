// Memory that runs out when a test says so. Including this replaces operator new in the whole
// program.
//
//   const ScarceMemory scarce({.after = 3});         // the fourth allocation from now on fails
//   const ScarceMemory scarce({.largest = 4096});    // and any of more bytes than these
//
// Only for the thread that made the object, while the object lives; one object at a time.

#ifndef BATCHPLAN_TESTS_SUPPORT_SCARCE_MEMORY_H_
#define BATCHPLAN_TESTS_SUPPORT_SCARCE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <limits>

namespace batchplan::testing {

struct MemoryLimits {
  // The number of allocations that succeed. The next one fails; later ones succeed again.
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
