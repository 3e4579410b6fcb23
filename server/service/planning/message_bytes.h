// Messages from and to the bytes that gRPC moves.

#ifndef BATCHPLAN_SERVER_SERVICE_PLANNING_MESSAGE_BYTES_H_
#define BATCHPLAN_SERVER_SERVICE_PLANNING_MESSAGE_BYTES_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace batchplan {

// Parses `bytes`, which stay as they are, into `message`. InvalidArgument, naming the message's
// type, if they don't parse.
absl::Status ParseBytes(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message);

// `message` as bytes, in one piece. ResourceExhausted if it is larger than protobuf allows, 2 GiB.
absl::StatusOr<grpc::ByteBuffer> ToBytes(const google::protobuf::MessageLite& message);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLANNING_MESSAGE_BYTES_H_
