// What a limit on the address space (ulimit -v) leaves to a process.
//
//   SpareAddressSpace();                                   // first in main
//   absl::Status status = CheckAddressSpace("the server", 512 << 20);
//
// gRPC 1.51 waits for ever, or ends the process, where it gets no thread for want of address space:
// so what starts it looks before.

#ifndef BATCHPLAN_SERVER_BASE_ADDRESS_SPACE_H_
#define BATCHPLAN_SERVER_BASE_ADDRESS_SPACE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace batchplan {

// Where there is a limit, has malloc serve all threads from one heap: glibc reserves 64 MiB or more
// for each thread's own, and its lock costs less than that. For main, while there is one thread.
void SpareAddressSpace();

// ResourceExhausted, naming the limit, if it is below the bytes that `user` needs.
absl::Status CheckAddressSpace(absl::string_view user, uint64_t bytes);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_BASE_ADDRESS_SPACE_H_
