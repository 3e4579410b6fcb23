// How many descriptors the process may have open.

#ifndef BATCHPLAN_SERVER_SERVICE_OPEN_FILE_LIMIT_H_
#define BATCHPLAN_SERVER_SERVICE_OPEN_FILE_LIMIT_H_

#include <sys/resource.h>

#include <cstdint>

namespace batchplan {

// Raises the limit to the most that the process is allowed, and returns what holds then. A
// connection is a descriptor, and gRPC 1.51 never again takes one after it found none.
inline uint64_t RaiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_OPEN_FILE_LIMIT_H_
