#include "server/service/message_bytes.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/service/rpc_status.h"

namespace batchplan {

absl::Status ParseBytes(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  grpc::ByteBuffer shared = bytes;  // the same slices; a reader takes no const buffer
  grpc::ProtoBufferReader reader(&shared);
  if (reader.status().ok() && message->ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the message is not a ", message->GetTypeName(),
                   ": it does not parse as protobuf, or a string in it is not UTF-8"));
}

absl::StatusOr<grpc::ByteBuffer> ToBytes(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  if (size > std::numeric_limits<int>::max()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the response takes ", size, " bytes, more than a message may have"));
  }
  const grpc::Slice slice(size);
  // Filled once, before anybody shares it.
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status CheckSendable(size_t bytes, size_t max_message_bytes) {
  if (bytes <= max_message_bytes) return absl::OkStatus();
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("the plan takes ", bytes,
                   " bytes, more than the server's max_message_bytes=", max_message_bytes));
  SetRetryAfter(-absl::InfiniteDuration(), &status);
  return status;
}

}  // namespace batchplan
