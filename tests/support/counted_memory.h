// Memory that is counted: what includes this takes operator new's place in the whole program.
//
//   const CountedMemory memory;
//   ...
//   EXPECT_LE(memory.peak(), limit);
//
// Only of the thread that says so, and for as long as the object lives; one at a time. Memory that
// the thread had before and gives back meanwhile counts as nothing.

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
