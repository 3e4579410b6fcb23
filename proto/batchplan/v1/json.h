// Messages as text: the canonical protobuf JSON mapping, which every protobuf library reads and
// writes (lowerCamelCase names, 64-bit integers as strings, durations as "1.5s").

#ifndef BATCHPLAN_PROTO_V1_JSON_H_
#define BATCHPLAN_PROTO_V1_JSON_H_

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace batchplan {

// For a person to edit: indented, unset fields left out. Ends in a newline.
absl::StatusOr<std::string> ToEditableJson(const google::protobuf::Message& message);

// For a program to read: one line, zero values included. Ends in a newline.
absl::StatusOr<std::string> ToCompleteJson(const google::protobuf::Message& message);

// InvalidArgument, naming the place, for text that is not such a message; unknown fields, fields
// given twice and nulls in lists included. A google.protobuf.Struct takes any JSON object.
absl::Status FromJson(const std::string& json, google::protobuf::Message* message);

// `text`, UTF-8, as a JSON string in quotes.
std::string JsonString(absl::string_view text);

// The shortest decimal that reads back as the same double; null for one that is not finite.
std::string JsonNumber(double number);

}  // namespace batchplan

#endif  // BATCHPLAN_PROTO_V1_JSON_H_
