// What protobuf's JSON parser lets pass, though nobody can have meant it.

#ifndef BATCHPLAN_PROTO_V1_STRICT_JSON_H_
#define BATCHPLAN_PROTO_V1_STRICT_JSON_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace batchplan {

// InvalidArgument, naming the place ("passes[1].name"), if `json` has a null within a list, which
// protobuf leaves out so that those after it move up, or an object that has a field twice, which
// protobuf takes the last of, or merges; maxTokens and max_tokens are one field. Also if it is not
// laid out as JSON is (RFC 8259), or more than kMaxJsonDepth deep; whether its strings, numbers and
// names are right is for protobuf to say.
//
// One pass without recursion; memory for the names of the objects that are open.
absl::Status CheckStrictJson(absl::string_view json);

inline constexpr int kMaxJsonDepth = 100;

}  // namespace batchplan

#endif  // BATCHPLAN_PROTO_V1_STRICT_JSON_H_
