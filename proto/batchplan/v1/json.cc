#include "proto/batchplan/v1/json.h"

#include <google/protobuf/message.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wrappers.pb.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/batchplan/v1/strict_json.h"

namespace batchplan {
namespace {

using google::protobuf::util::JsonPrintOptions;

absl::StatusOr<std::string> Print(const google::protobuf::Message& message,
                                  const JsonPrintOptions& options) {
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return absl::InvalidArgumentError(std::string(status.message()));
  if (json.empty() || json.back() != '\n') json += '\n';
  return json;
}

}  // namespace

absl::StatusOr<std::string> ToEditableJson(const google::protobuf::Message& message) {
  JsonPrintOptions options;
  options.add_whitespace = true;
  return Print(message, options);
}

absl::StatusOr<std::string> ToCompleteJson(const google::protobuf::Message& message) {
  JsonPrintOptions options;
#if GOOGLE_PROTOBUF_VERSION >= 5026000
  options.always_print_fields_with_no_presence = true;
#else
  options.always_print_primitive_fields = true;
#endif
  return Print(message, options);
}

absl::Status FromJson(const std::string& json, google::protobuf::Message* message) {
  // What is in other people's objects is theirs.
  if (message->GetDescriptor() != google::protobuf::Struct::descriptor()) {
    absl::Status strict = CheckStrictJson(json);
    if (!strict.ok()) return strict;
  }
  const auto status = google::protobuf::util::JsonStringToMessage(json, message);
  if (!status.ok()) return absl::InvalidArgumentError(std::string(status.message()));
  return absl::OkStatus();
}

std::string JsonString(absl::string_view text) {
  google::protobuf::StringValue value;
  value.set_value(std::string(text));
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(value, &json).ok()) return "\"\"";
  return json;
}

std::string JsonNumber(double number) {
  if (!std::isfinite(number)) return "null";
  // Long enough for every double: std::to_chars writes at most 24 characters.
  std::array<char, 32> text;
  const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end.ptr};
}

}  // namespace batchplan
