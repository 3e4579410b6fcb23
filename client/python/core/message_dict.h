// Messages as json.loads has them of protobuf's JSON, in a tenth of the time.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_MESSAGE_DICT_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_MESSAGE_DICT_H_

#include <google/protobuf/message.h>
#include <nanobind/nanobind.h>

namespace batchplan::python {

// With lowerCamelCase names, 64-bit integers and numbers that are not finite as strings, enums by
// name and durations as "1.5s". Zero values are included, fields that are not set left out. Of
// field types those that answers have: no maps, bytes and single-precision numbers. Needs Python's
// lock.
nanobind::dict MessageDict(const google::protobuf::Message& message);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_MESSAGE_DICT_H_
