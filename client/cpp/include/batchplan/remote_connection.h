// A connection to a batchplan server, or to several that serve the same jobs.
//
// One HTTP/2 channel to each address that the target's name stands for, opened by the first call
// and reopened whenever it is lost; calls go to them in turn, around those that can't be reached.
// Calls that meet UNAVAILABLE (no server, a draining server, a broken connection) are retried with
// exponential back-off within their timeout, those that meet RESOURCE_EXHAUSTED (a full queue) when
// the server says; all other errors are returned at once. The channel is not
// encrypted: use it within a trusted network.

#ifndef BATCHPLAN_CLIENT_CPP_REMOTE_CONNECTION_H_
#define BATCHPLAN_CLIENT_CPP_REMOTE_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "batchplan/connection.h"

namespace batchplan {

struct RemoteOptions {
  // The largest request sent and response accepted; RESOURCE_EXHAUSTED beyond. A sequence takes up
  // to 5 bytes in a request and 10 in a response. At least 1.
  int max_message_bytes = 64 << 20;
  // For calls that set no timeout. More than 0.
  absl::Duration default_timeout = absl::Seconds(30);
  // Attempts for one call, the first included: 1 (no retries) to 5, which is the most gRPC makes.
  int max_attempts = 5;
  // The wait before the n-th retry is random, up to min(initial_backoff * 2^(n-1), max_backoff).
  // A lost connection is tried again no more often than every initial_backoff. Both at least 1 ms,
  // the first no larger than the second.
  absl::Duration initial_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(2);

  // InvalidArgument naming field, value and limit.
  absl::Status Validate() const;
};

// Connects to `target`: "host:port", or any gRPC name such as "dns:///planner:50051" or
// "unix:/run/batchplan.sock". Returns at once; whether a server can be reached, and invalid
// options, show in the status of each call.
std::shared_ptr<Connection> MakeRemoteConnection(const std::string& target,
                                                 const RemoteOptions& options = {});

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_REMOTE_CONNECTION_H_
