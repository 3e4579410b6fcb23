// gRPC's own messages as lines of our log, in its format and from its level on.

#ifndef BATCHPLAN_SERVER_SERVICE_GRPC_LOG_H_
#define BATCHPLAN_SERVER_SERVICE_GRPC_LOG_H_

namespace batchplan {

// From then on, for the whole process: event=grpc, with the message and where it is from. Which
// messages there are is GRPC_VERBOSITY's to say; errors, by default.
void RouteGrpcLog();

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_GRPC_LOG_H_
