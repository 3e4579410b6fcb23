#include "server/service/planning/message_bytes.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"

namespace batchplan {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownFieldSet;

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

absl::Status CheckFieldsKnown(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const Descriptor& type = *message.GetDescriptor();
  const UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    return absl::UnimplementedError(absl::StrCat("field ", unknown.field(0).number(), " of ",
                                                 type.full_name(),
                                                 " is not known to this version"));
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    absl::Status known;
    if (field->is_repeated()) {
      const int size = reflection.FieldSize(message, field);
      for (int j = 0; j < size && known.ok(); ++j) {
        known = CheckFieldsKnown(reflection.GetRepeatedMessage(message, field, j));
      }
    } else if (reflection.HasField(message, field)) {
      known = CheckFieldsKnown(reflection.GetMessage(message, field));
    }
    if (!known.ok()) return known;
  }
  return absl::OkStatus();
}

}  // namespace batchplan
