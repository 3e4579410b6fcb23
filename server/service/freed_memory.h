// What malloc does with memory that plans no longer need.

#ifndef BATCHPLAN_SERVER_SERVICE_FREED_MEMORY_H_
#define BATCHPLAN_SERVER_SERVICE_FREED_MEMORY_H_

#include <cstddef>
#include <cstdlib>  // __GLIBC__

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace batchplan {

// Keeps up to 64 MiB of it for each of malloc's arenas, to plan the next batch in. By default glibc
// gives large blocks back at once, and every plan of many sequences has its pages mapped and zeroed
// anew: for a million sequences that takes as long as packing them. To be called before there are
// threads; does nothing with another malloc.
inline void KeepFreedMemory() {
#if defined(__GLIBC__)
  // Larger blocks than this are mapped on their own; glibc takes no larger value.
  constexpr int kLargestKept = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kLargestKept);
  mallopt(M_TRIM_THRESHOLD, 2 * kLargestKept);
#endif
}

// What malloc keeps, in all arenas. 0 with another malloc.
inline size_t FreedMemory() {
#if defined(__GLIBC__)
  return mallinfo2().fordblks;
#else
  return 0;
#endif
}

// Gives what malloc keeps back to the system, wherever it is: a plan's pages are otherwise held by
// whatever small thing is allocated above them. Takes milliseconds, and the plans after it the time
// to have pages mapped again.
inline void ReturnFreedMemory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_FREED_MEMORY_H_
