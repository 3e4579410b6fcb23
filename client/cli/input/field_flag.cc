#include "client/cli/input/field_flag.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/choice.h"
#include "client/cli/input/count.h"

namespace batchplan::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

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

// The fields from a message to one of its scalars, outermost first.
std::vector<const FieldDescriptor*> Resolve(const Descriptor* descriptor, const std::string& path) {
  std::vector<const FieldDescriptor*> fields;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    const FieldDescriptor* field = descriptor->FindFieldByName(std::string(name));
    fields.push_back(field);
    descriptor = field->message_type();
  }
  return fields;
}

[[noreturn]] void Refuse(const std::string& flag, const std::string& text,
                         const std::string& expected) {
  throw CLI::ValidationError(flag, absl::StrCat("\"", text, "\" is not ", expected));
}

template <typename Integer>
Integer ParseInteger(const std::string& flag, const std::string& text) {
  constexpr Integer kMost = std::numeric_limits<Integer>::max();
  const std::optional<uint64_t> value = ParseCount(text);
  if (!value.has_value() || *value > kMost) {
    throw CLI::ValidationError(flag, NotACount(text, kMost));
  }
  return static_cast<Integer>(*value);
}

double ParseDouble(const std::string& flag, const std::string& text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value)) Refuse(flag, text, "a number");
  return value;
}

void Set(const std::string& flag, const std::string& text, const FieldDescriptor* field,
         Message* message) {
  const Reflection* reflection = message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      if (field->is_repeated()) {
        for (const uint32_t number : ParseNumbers(flag, text)) {
          reflection->AddUInt32(message, field, number);
        }
      } else {
        reflection->SetUInt32(message, field, ParseInteger<uint32_t>(flag, text));
      }
      return;
    case FieldDescriptor::CPPTYPE_UINT64:
      reflection->SetUInt64(message, field, ParseInteger<uint64_t>(flag, text));
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (field->is_repeated()) {
        for (const absl::string_view item : absl::StrSplit(text, ',')) {
          reflection->AddDouble(message, field, ParseDouble(flag, std::string(item)));
        }
      } else {
        reflection->SetDouble(message, field, ParseDouble(flag, text));
      }
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      reflection->SetString(message, field, text);
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      // The option has checked that the text names a value of the enum.
      reflection->SetEnum(
          message, field,
          field->enum_type()->FindValueByNumber(EnumNumber(field->enum_type(), text)));
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection->SetBool(message, field, true);
      return;
    default:
      Refuse(flag, text, "supported");
  }
}

const char* TypeName(const FieldDescriptor* field) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return "TEXT";
    case FieldDescriptor::CPPTYPE_ENUM:
      return "NAME";
    default:
      return field->is_repeated() ? "N,N,..." : "N";
  }
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

std::vector<uint32_t> ParseNumbers(const std::string& flag, const std::string& text) {
  std::vector<uint32_t> numbers;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    numbers.push_back(ParseInteger<uint32_t>(flag, std::string(item)));
  }
  return numbers;
}

CLI::Option* AddFieldFlag(CLI::App* app, const std::string& flag, Message* message,
                          const std::string& path, const std::string& help) {
  const std::vector<const FieldDescriptor*> fields = Resolve(message->GetDescriptor(), path);
  const FieldDescriptor* field = fields.back();
  const auto set = [flag, message, fields](const std::string& text) {
    Message* owner = message;
    for (size_t i = 0; i + 1 < fields.size(); ++i) {
      owner = owner->GetReflection()->MutableMessage(owner, fields[i]);
    }
    Set(flag, text, fields.back(), owner);
  };
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    return app->add_flag_callback(
        flag, [set] { set(""); }, help);
  }
  CLI::Option* option =
      app->add_option_function<std::string>(flag, set, help)->type_name(TypeName(field));
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const std::vector<std::string> words = EnumWords(field->enum_type());
    option->check(OneOf(words))->description(absl::StrCat(help, ": ", absl::StrJoin(words, ", ")));
  }
  return option;
}

}  // namespace batchplan::cli
