#include "proto/batchplan/v1/known_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include "absl/strings/str_cat.h"

namespace batchplan {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownFieldSet;

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
