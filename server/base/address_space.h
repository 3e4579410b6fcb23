// A process under a limit on the address space (ulimit -v).
//
//   SpareAddressSpace();                                   // first in main
//   absl::Status status = CheckAddressSpace("the server", 512 << 20);
//
// gRPC 1.51 waits for ever, or ends the process, if it gets no thread for want of address space. So
// programs check before they start it.

#ifndef BATCHPLAN_SERVER_BASE_ADDRESS_SPACE_H_
#define BATCHPLAN_SERVER_BASE_ADDRESS_SPACE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace batchplan {

// If there is a limit, makes malloc serve all threads from one heap: glibc would reserve at least
// 64 MiB for each thread, which costs more than the heap's lock. For main, while there is one
// thread.
void SpareAddressSpace();

// ResourceExhausted, naming the limit, if it is below the bytes that `user` needs.
absl::Status CheckAddressSpace(absl::string_view user, uint64_t bytes);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_BASE_ADDRESS_SPACE_H_
