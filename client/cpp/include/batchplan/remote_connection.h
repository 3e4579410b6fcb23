// A connection to a batchplan server, or to several that serve the same jobs.
//
// One HTTP/2 channel to each address of the target's name, opened by the first call and reopened
// whenever it is lost; calls go to reachable addresses in turn. A server that does not answer
// pings, because it hangs or the network drops its packets, counts as unreachable: calls that wait
// for it are UNAVAILABLE after keepalive_time and keepalive_timeout.
//
// Calls that meet UNAVAILABLE (no server, no address for its name, a draining server, a broken
// connection), or CANCELLED, with which a server ends calls when it stops, are retried with
// exponential back-off until their own time is over; those that meet RESOURCE_EXHAUSTED (a full
// queue) when the server says, unless that is too late; those that meet UNIMPLEMENTED, perhaps from
// a replica of another version, a few times. All other errors are returned at once. With a fallback
// (fallback_connection.h) a plan is given up after a few attempts, none of which begins after 15 s
// or half of the call's time; once no server was found, later plans wait at most 1 s until one
// answers again.
//
// A certificate that one side refuses is UNAUTHENTICATED, with the reason, and not retried. Without
// RemoteOptions.tls the channel is not encrypted: use it within a trusted network.

#ifndef BATCHPLAN_CLIENT_CPP_REMOTE_CONNECTION_H_
#define BATCHPLAN_CLIENT_CPP_REMOTE_CONNECTION_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "batchplan/connection.h"

namespace batchplan {

// Paths of PEM files, which are read when the connection is made, and again within a minute of a
// change, so that certificates can be renewed under a running client.
struct TlsOptions {
  // The authorities that a server's certificate must come from. Not empty.
  std::string root_certificates = {};
  // The caller's own certificate chain and its key, for servers that demand one: both or neither.
  std::string certificate = {};
  std::string key = {};
  // The name that the server's certificate must have; empty: the host of the target.
  std::string server_name = {};
};

struct RemoteOptions {
  // The largest request sent and response accepted; RESOURCE_EXHAUSTED beyond. A sequence needs up
  // to 5 bytes in a request and 10 in a response. At least 1.
  int max_message_bytes = 64 << 20;
  // For calls that set no timeout. More than 0.
  absl::Duration default_timeout = absl::Seconds(30);
  // Attempts for one call, the first included, at least 1: no retries. Unset: as many as its time
  // allows.
  std::optional<int> max_attempts = {};
  // The wait before the n-th retry is random, up to min(initial_backoff * 2^(n-1), max_backoff).
  // A lost connection is tried again no more often than every initial_backoff. Both at least 1 ms,
  // the first no larger than the second.
  absl::Duration initial_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(2);
  // The limit of one attempt at a plan, in case something else answers pings in the server's place;
  // more than the server's --max_planning_seconds. Joins, which wait for others, have no such
  // limit. At least 1 ms.
  absl::Duration attempt_timeout = absl::Seconds(40);
  // A server is pinged after this much silence, also between calls, and its connection closed if
  // the answer takes longer than keepalive_timeout. A server that allows fewer pings
  // (--min_client_ping_interval) makes gRPC ping less often. Infinite: never. At least 1 ms.
  absl::Duration keepalive_time = absl::Seconds(5);
  absl::Duration keepalive_timeout = absl::Seconds(5);
  // The limit for making a connection, TLS included. At least 100 ms.
  absl::Duration connect_timeout = absl::Seconds(5);
  // Encrypt the channel and verify who answers. Unset: plain text.
  std::optional<TlsOptions> tls = {};
  // A file whose first line is a bearer token to send with each call. It is read for each, so that
  // a new token needs no new connection. Empty: no token. Needs tls: a token is a secret.
  std::string token_file = {};

  // InvalidArgument naming field, value and limit.
  absl::Status Validate() const;
};

// Connects to `target`: "host:port", or any gRPC name such as "dns:///planner:50051" or
// "unix:/run/batchplan.sock". Returns at once; whether a server can be reached, and invalid
// options, show in the status of each call.
//
// A join without a run_id gets Slurm's, "slurm-JOB.STEP.rRESTARTS", if this process is a task of a
// step with at least a task for each worker, and not torchrun's. So a requeued job does not meet
// the steps that it left behind.
std::shared_ptr<Connection> MakeRemoteConnection(const std::string& target,
                                                 const RemoteOptions& options = {});

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_REMOTE_CONNECTION_H_
