// Messages as text: the canonical protobuf JSON mapping, which every protobuf library reads and
// writes (lowerCamelCase names, 64-bit integers as strings, durations as "1.5s"). The locale
// of the process changes nothing.

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

inline constexpr int kMaxJsonDepth = 100;

// FromJson's own part of that: what protobuf's parser lets pass, though nobody can have meant it.
// InvalidArgument, naming the place ("passes[1].name"), if `json` has a null within a list, which
// protobuf leaves out so that those after it move up, or an object that has a field twice, which
// protobuf takes the last of, or merges; maxTokens and max_tokens are one field. Also if it is not
// laid out as JSON is (RFC 8259), or more than kMaxJsonDepth deep; whether its strings, numbers and
// names are right is for protobuf to say.
//
// One pass without recursion; memory for the names of the objects that are open.
absl::Status CheckStrictJson(absl::string_view json);

// `text`, UTF-8, as a JSON string in quotes.
std::string JsonString(absl::string_view text);

// The shortest decimal that reads back as the same double; null for one that is not finite.
std::string JsonNumber(double number);

}  // namespace batchplan

#endif  // BATCHPLAN_PROTO_V1_JSON_H_
