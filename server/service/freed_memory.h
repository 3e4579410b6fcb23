// What malloc does with memory that a plan no longer needs.

#ifndef BATCHPLAN_SERVER_SERVICE_FREED_MEMORY_H_
#define BATCHPLAN_SERVER_SERVICE_FREED_MEMORY_H_

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

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_FREED_MEMORY_H_
