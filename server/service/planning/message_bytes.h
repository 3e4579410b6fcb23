// Messages out of and into the bytes that gRPC moves, and what of a message is not known here.

#ifndef BATCHPLAN_SERVER_SERVICE_PLANNING_MESSAGE_BYTES_H_
#define BATCHPLAN_SERVER_SERVICE_PLANNING_MESSAGE_BYTES_H_

#include <google/protobuf/message.h>
#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace batchplan {

// Parses `bytes`, which stay as they are, into `message`. InvalidArgument, naming the message's
// type, if they are none.
absl::Status ParseBytes(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message);

// `message` as bytes, in one piece. ResourceExhausted if it is larger than protobuf allows, 2 GiB.
absl::StatusOr<grpc::ByteBuffer> ToBytes(const google::protobuf::MessageLite& message);

// Unimplemented, naming number and message, if `message` or one within it has a field that is not
// known here. To pass over it would be to answer another question: a newer replica can do what was
// asked. Looks at each message once, and at no number of an array.
absl::Status CheckFieldsKnown(const google::protobuf::Message& message);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_PLANNING_MESSAGE_BYTES_H_
