// Command-line flags that set fields of a protobuf message. A flag has no value of its own: the
// type, and for an enum the words it takes, come from the field's descriptor, so that a value added
// to the contract is a value of the flag.

#ifndef BATCHPLAN_CLIENT_CLI_FIELD_FLAG_H_
#define BATCHPLAN_CLIENT_CLI_FIELD_FLAG_H_

#include <google/protobuf/message.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace batchplan::cli {

// Adds option `flag` to `app`: when given, it sets the field at `path`, dotted field names from
// `message`, and the messages on the way. `path` must name an existing field of type uint32,
// uint64, double, bool, string, enum, or repeated uint32 (separated by commas).
//
// Bools become switches. An enum takes its words (enum_word.h). Wrong values are
// CLI::ValidationError. `message` must outlive the parse.
CLI::Option* AddFieldFlag(CLI::App* app, const std::string& flag,
                          google::protobuf::Message* message, const std::string& path,
                          const std::string& help);

// The numbers in "8,16,32". CLI::ValidationError, naming `flag` and the wrong item.
std::vector<uint32_t> ParseNumbers(const std::string& flag, const std::string& text);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_FIELD_FLAG_H_
