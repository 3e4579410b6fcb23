#include "client/cli/enum_word.h"

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;

// PACKER_FIRST_FIT_DECREASING -> first_fit_decreasing.
std::string Word(const EnumValueDescriptor* value) {
  std::string prefix;
  for (const char c : value->type()->name()) {
    if (absl::ascii_isupper(c) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(c);
  }
  absl::string_view word = value->name();
  return absl::AsciiStrToLower(word.substr(prefix.size() + 1));
}

}  // namespace

std::vector<std::string> EnumWords(const EnumDescriptor* type) {
  std::vector<std::string> words;
  for (int i = 0; i < type->value_count(); ++i) {
    if (type->value(i)->number() != 0) words.push_back(Word(type->value(i)));
  }
  return words;
}

int EnumNumber(const EnumDescriptor* type, const std::string& word) {
  for (int i = 0; i < type->value_count(); ++i) {
    if (type->value(i)->number() != 0 && Word(type->value(i)) == word) {
      return type->value(i)->number();
    }
  }
  return 0;
}

}  // namespace batchplan::cli
