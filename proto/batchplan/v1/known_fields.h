// What of a message this version does not know.

#ifndef BATCHPLAN_PROTO_V1_KNOWN_FIELDS_H_
#define BATCHPLAN_PROTO_V1_KNOWN_FIELDS_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"

namespace batchplan {

// Unimplemented, naming number and message, if `message` or one within it has a field that is not
// known here. To pass over it would be to answer another question: a newer version can do what was
// asked. Looks at each message once, and at no number of an array.
absl::Status CheckFieldsKnown(const google::protobuf::Message& message);

}  // namespace batchplan

#endif  // BATCHPLAN_PROTO_V1_KNOWN_FIELDS_H_
