// gRPC's own messages, in the server's log.

#ifndef BATCHPLAN_SERVER_GRPC_LOG_H_
#define BATCHPLAN_SERVER_GRPC_LOG_H_

namespace batchplan {

// From now on logs gRPC's own messages in our format and from our level on. GRPC_VERBOSITY chooses
// the messages; by default, errors. Call it once.
void LogGrpcMessages();

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_GRPC_LOG_H_
