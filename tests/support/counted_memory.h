// Counts memory. Including this replaces operator new in the whole program.
//
//   const CountedMemory memory;
//   ...
//   EXPECT_LE(memory.peak(), limit);
//
// Counts only for the thread that made the object, while the object lives; one object at a time.
// Memory that the thread had before and frees meanwhile does not count.

#ifndef BATCHPLAN_TESTS_SUPPORT_COUNTED_MEMORY_H_
#define BATCHPLAN_TESTS_SUPPORT_COUNTED_MEMORY_H_

#include <cstdint>

namespace batchplan::testing {

class CountedMemory {
 public:
  CountedMemory();
  ~CountedMemory();

  CountedMemory(const CountedMemory&) = delete;
  CountedMemory& operator=(const CountedMemory&) = delete;

  // The most bytes that were held at once, as the allocator rounds them.
  uint64_t peak() const;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_COUNTED_MEMORY_H_
