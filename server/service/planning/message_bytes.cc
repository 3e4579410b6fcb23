#include "server/service/planning/message_bytes.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"

namespace batchplan {

absl::Status ParseBytes(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  grpc::ByteBuffer shared = bytes;  // shares its slices; a reader needs a non-const buffer
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
  // Written once, before the slice is shared.
  static_cast<void>(message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin())));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace batchplan
