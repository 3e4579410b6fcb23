#include "client/python/core/message_dict.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/util/time_util.h>

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/python/core/status_error.h"

namespace nb = nanobind;

namespace batchplan::python {
namespace {

using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

nb::object Text(const std::string& text) { return nb::str(text.data(), text.size()); }

nb::object Number(double number) {
  if (std::isnan(number)) return nb::str("NaN");
  if (std::isinf(number)) return nb::str(number > 0 ? "Infinity" : "-Infinity");
  return nb::float_(number);
}

nb::object Submessage(const Message& message) {
  if (message.GetDescriptor() == Duration::descriptor()) {
    return Text(google::protobuf::util::TimeUtil::ToString(static_cast<const Duration&>(message)));
  }
  return MessageDict(message);
}

// `get(one, several)` is the value by the getter of reflection that the field has.
template <typename Get>
nb::object Value(const FieldDescriptor& field, const Get& get) {
  using Reflection = google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return nb::bool_(get(&Reflection::GetBool, &Reflection::GetRepeatedBool));
    case FieldDescriptor::CPPTYPE_INT32:
      return nb::int_(get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32));
    case FieldDescriptor::CPPTYPE_UINT32:
      return nb::int_(get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32));
    case FieldDescriptor::CPPTYPE_INT64:
      return Text(absl::StrCat(get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64)));
    case FieldDescriptor::CPPTYPE_UINT64:
      return Text(absl::StrCat(get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble));
    case FieldDescriptor::CPPTYPE_ENUM:
      return Text(get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name());
    case FieldDescriptor::CPPTYPE_STRING:
      return Text(get(&Reflection::GetString, &Reflection::GetRepeatedString));
    default:
      throw StatusError(absl::InternalError(
          absl::StrCat(std::string(field.full_name()), " is of a type that has no dict")));
  }
}

nb::object OneOf(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return Submessage(reflection.GetMessage(message, &field));
  }
  return Value(field, [&](auto one, auto) { return (reflection.*one)(message, &field); });
}

nb::list AllOf(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  nb::list values;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      values.append(Submessage(reflection.GetRepeatedMessage(message, &field, i)));
    } else {
      values.append(Value(
          field, [&](auto, auto several) { return (reflection.*several)(message, &field, i); }));
    }
  }
  return values;
}

}  // namespace

nb::dict MessageDict(const Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  nb::dict dict;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.has_presence() && !message.GetReflection()->HasField(message, &field)) continue;
    const std::string name(field.json_name());
    if (field.is_repeated()) {
      dict[name.c_str()] = AllOf(message, field);
    } else {
      dict[name.c_str()] = OneOf(message, field);
    }
  }
  return dict;
}

}  // namespace batchplan::python
