// Enum values of the contract as people write them: PACKER_FIRST_FIT_DECREASING is
// first_fit_decreasing.

#ifndef BATCHPLAN_CLIENT_CLI_ENUM_WORD_H_
#define BATCHPLAN_CLIENT_CLI_ENUM_WORD_H_

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

namespace batchplan::cli {

// The words of `type`, in its order: its values' names in lower case, without the type's name. The
// unspecified value has none: leaving the word out says it.
std::vector<std::string> EnumWords(const google::protobuf::EnumDescriptor* type);

// The number of the value that is written `word`; 0 if there is none.
int EnumNumber(const google::protobuf::EnumDescriptor* type, const std::string& word);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_ENUM_WORD_H_
