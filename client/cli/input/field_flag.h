// Command-line flags that set fields of a protobuf message. A flag has no value of its own: the
// type, and for an enum the words it takes, come from the field's descriptor, so that a value added
// to the contract is a value of the flag. People write enum values in their own way:
// PACKER_FIRST_FIT_DECREASING is first_fit_decreasing.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_FIELD_FLAG_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_FIELD_FLAG_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <vector>

// Not CLI11's header, for those who want the words of enums alone.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace batchplan::cli {

// The words of `type`, in its order: its values' names in lower case, without the type's name. The
// unspecified value has none: leaving the word out says it.
std::vector<std::string> EnumWords(const google::protobuf::EnumDescriptor* type);

// The number of the value that is written `word`; 0 if there is none.
int EnumNumber(const google::protobuf::EnumDescriptor* type, const std::string& word);

// Adds option `flag` to `app`: when given, it sets the field at `path`, dotted field names from
// `message`, and the messages on the way. `path` must name an existing field of type uint32,
// uint64, double, bool, string, enum, or repeated uint32 or double (separated by commas).
//
// Bools become switches. An enum takes its words, an integer what ParseCount does. Wrong values are
// CLI::ValidationError. `message` must outlive the parse.
CLI::Option* AddFieldFlag(CLI::App* app, const std::string& flag,
                          google::protobuf::Message* message, const std::string& path,
                          const std::string& help);

// The numbers in "8,16,32" or "8k,16k". CLI::ValidationError, naming `flag` and the wrong item.
std::vector<uint32_t> ParseNumbers(const std::string& flag, const std::string& text);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_FIELD_FLAG_H_
