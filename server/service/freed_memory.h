// Memory that plans have freed and malloc keeps.

#ifndef BATCHPLAN_SERVER_SERVICE_FREED_MEMORY_H_
#define BATCHPLAN_SERVER_SERVICE_FREED_MEMORY_H_

#include <cstddef>
#include <cstdlib>  // __GLIBC__

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace batchplan {

// Makes malloc keep up to 64 MiB of it in each arena for the next batch. By default glibc returns
// large blocks at once, and every plan of many sequences has its pages mapped and zeroed anew: for
// a million sequences that is as slow as packing them. Call it before there are threads; does
// nothing with another malloc.
inline void KeepFreedMemory() {
#if defined(__GLIBC__)
  // Larger blocks are mapped on their own; glibc allows no larger value.
  constexpr int kLargestKept = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kLargestKept);
  mallopt(M_TRIM_THRESHOLD, 2 * kLargestKept);
#endif
}

// The freed bytes that malloc keeps, in all arenas. 0 with another malloc.
inline size_t FreedMemory() {
#if defined(__GLIBC__)
  return mallinfo2().fordblks;
#else
  return 0;
#endif
}

// Returns all that malloc keeps to the system. Otherwise any small allocation above a plan's pages
// holds them. Takes milliseconds, and later plans have to map pages again.
inline void ReturnFreedMemory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_FREED_MEMORY_H_
