// What a server takes from a connection before it closes it: gRPC's settings, from ServerOptions.

#ifndef BATCHPLAN_SERVER_SERVICE_CONNECTION_LIMITS_H_
#define BATCHPLAN_SERVER_SERVICE_CONNECTION_LIMITS_H_

#include <grpcpp/server_builder.h>

#include "server/service/server_options.h"

namespace batchplan {

// For valid options: message sizes, keepalive, idleness and age, handshakes, streams, metadata.
void SetConnectionLimits(const ServerOptions& options, grpc::ServerBuilder* builder);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_CONNECTION_LIMITS_H_
