// Whether a server answers at all, asked by the standard health check.

#ifndef BATCHPLAN_CLIENT_CPP_HEALTH_PROBE_H_
#define BATCHPLAN_CLIENT_CPP_HEALTH_PROBE_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace batchplan {

// OK if a server answers grpc.health.v1.Health/Check within `timeout`, with SERVING or with an
// error of its own: one without that service answers too. Unavailable, with why, if it says that it
// does not serve, which is what it says while it drains, or if nobody answers; the channel connects
// again meanwhile. Blocks that long at most.
absl::Status ProbeHealth(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_HEALTH_PROBE_H_
