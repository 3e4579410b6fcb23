#include "proto/batchplan/v1/json.h"

#include <google/protobuf/message.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wrappers.pb.h>
#include <locale.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace batchplan {
namespace {

using google::protobuf::util::JsonPrintOptions;

// While it lives, this thread has C's own locale, and other threads keep theirs. Some versions of
// protobuf write the fraction of a duration by printf, with the decimal point of the locale, which
// is the caller's to set. Costs some nanoseconds.
class CLocale {
 public:
  CLocale() : before_(uselocale(Shared())) {}
  ~CLocale() { uselocale(before_); }

  CLocale(const CLocale&) = delete;
  CLocale& operator=(const CLocale&) = delete;

 private:
  static locale_t Shared() {
    // Never freed: a thread may still write when the process ends.
    static const locale_t shared = newlocale(LC_ALL_MASK, "C", nullptr);
    return shared;
  }

  const locale_t before_;
};

absl::StatusOr<std::string> Print(const google::protobuf::Message& message,
                                  const JsonPrintOptions& options) {
  const CLocale c_locale;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return absl::InvalidArgumentError(std::string(status.message()));
  if (json.empty() || json.back() != '\n') json += '\n';
  return json;
}

// An object or a list that is open.
struct Level {
  bool is_list = false;
  // Of a list: the entry that is read, from 0.
  size_t entry = 0;
  // Of an object: the field that is read, and all so far, each in the one of its spellings that
  // all of them come to.
  std::string name;
  std::set<std::string> names;
};

// What the spellings of a field in JSON have in common.
std::string FieldName(absl::string_view name) {
  std::string common;
  for (const char c : name) {
    if (c != '_') common += absl::ascii_tolower(c);
  }
  return common;
}

// Reads JSON far enough to find what CheckStrictJson refuses.
class Scanner {
 public:
  explicit Scanner(absl::string_view json) : json_(json) {}

  absl::Status Scan() {
    for (;;) {
      absl::Status status = Value();
      // After a value: the end of what it is in, as often as that ends, or the next one.
      while (status.ok() && !opened_) {
        if (levels_.empty()) return Next() == '\0' && at_ == json_.size() ? status : Error();
        const char next = Next();
        ++at_;
        if (next == ',') {
          ++levels_.back().entry;
          status = BeginEntry();
          break;
        }
        if (next != (levels_.back().is_list ? ']' : '}')) return Error();
        levels_.pop_back();
      }
      if (!status.ok()) return status;
    }
  }

 private:
  // The next character that is no space, where at_ then is; 0 at the end.
  char Next() {
    while (at_ < json_.size() &&
           (json_[at_] == ' ' || json_[at_] == '\t' || json_[at_] == '\n' || json_[at_] == '\r')) {
      ++at_;
    }
    return at_ < json_.size() ? json_[at_] : '\0';
  }

  // Reads a value, but of an object or a list only as far as its first value: opened_ then.
  absl::Status Value() {
    opened_ = false;
    const char first = Next();
    if (first == '{' || first == '[') {
      ++at_;
      const bool is_list = first == '[';
      if (Next() == (is_list ? ']' : '}')) {
        ++at_;
        return absl::OkStatus();
      }
      if (levels_.size() == static_cast<size_t>(kMaxJsonDepth)) {
        return absl::InvalidArgumentError(
            absl::StrCat("the JSON is more than ", kMaxJsonDepth, " levels deep"));
      }
      levels_.emplace_back().is_list = is_list;
      opened_ = true;
      return BeginEntry();
    }
    absl::string_view text;
    if (first == '"') return String(&text);
    const size_t start = at_;
    while (at_ < json_.size() && (absl::ascii_isalnum(json_[at_]) || json_[at_] == '-' ||
                                  json_[at_] == '+' || json_[at_] == '.')) {
      ++at_;
    }
    text = json_.substr(start, at_ - start);
    if (text.empty() ||
        (absl::ascii_isalpha(text[0]) && text != "true" && text != "false" && text != "null")) {
      at_ = start;
      return Error();
    }
    if (text == "null" && !levels_.empty() && levels_.back().is_list) {
      return absl::InvalidArgumentError(absl::StrCat(Place(), " is null; a list has no nulls"));
    }
    return absl::OkStatus();
  }

  // Of an object, the name before the value.
  absl::Status BeginEntry() {
    Level& level = levels_.back();
    if (level.is_list) return absl::OkStatus();
    if (Next() != '"') return Error();
    absl::string_view name;
    absl::Status status = String(&name);
    if (!status.ok()) return status;
    level.name = std::string(name);
    // No name of ours needs one, and any could be hidden behind it.
    if (name.find('\\') != absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(Place(), " is a name with an escape; write it out"));
    }
    if (!level.names.insert(FieldName(name)).second) {
      return absl::InvalidArgumentError(absl::StrCat(Place(), " is given twice"));
    }
    if (Next() != ':') return Error();
    ++at_;
    return absl::OkStatus();
  }

  // Reads a string to its end; `text` is what stands between the quotes.
  absl::Status String(absl::string_view* text) {
    const size_t start = ++at_;
    while (at_ < json_.size() && json_[at_] != '"') at_ += json_[at_] == '\\' ? 2 : 1;
    if (at_ >= json_.size()) {
      at_ = json_.size();
      return Error();
    }
    *text = json_.substr(start, at_ - start);
    ++at_;
    return absl::OkStatus();
  }

  // "passes[1].name" of the value that is read.
  std::string Place() const {
    std::string place;
    for (const Level& level : levels_) {
      if (level.is_list) {
        absl::StrAppend(&place, "[", level.entry, "]");
      } else {
        absl::StrAppend(&place, place.empty() ? "" : ".", absl::CHexEscape(level.name));
      }
    }
    return place;
  }

  absl::Status Error() const {
    return absl::InvalidArgumentError(
        absl::StrCat("no JSON at byte ", at_, at_ < json_.size() ? "" : ", its end",
                     levels_.empty() ? "" : absl::StrCat(", in ", Place())));
  }

  const absl::string_view json_;
  size_t at_ = 0;
  bool opened_ = false;
  std::vector<Level> levels_;
};

}  // namespace

absl::StatusOr<std::string> ToEditableJson(const google::protobuf::Message& message) {
  JsonPrintOptions options;
  options.add_whitespace = true;
  return Print(message, options);
}

absl::StatusOr<std::string> ToCompleteJson(const google::protobuf::Message& message) {
  JsonPrintOptions options;
#if GOOGLE_PROTOBUF_VERSION >= 5026000
  options.always_print_fields_with_no_presence = true;
#else
  options.always_print_primitive_fields = true;
#endif
  return Print(message, options);
}

absl::Status CheckStrictJson(absl::string_view json) { return Scanner(json).Scan(); }

absl::Status FromJson(const std::string& json, google::protobuf::Message* message) {
  // What is in other people's objects is theirs.
  if (message->GetDescriptor() != google::protobuf::Struct::descriptor()) {
    absl::Status strict = CheckStrictJson(json);
    if (!strict.ok()) return strict;
  }
  const CLocale c_locale;
  const auto status = google::protobuf::util::JsonStringToMessage(json, message);
  if (!status.ok()) return absl::InvalidArgumentError(std::string(status.message()));
  return absl::OkStatus();
}

std::string JsonString(absl::string_view text) {
  google::protobuf::StringValue value;
  value.set_value(std::string(text));
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(value, &json).ok()) return "\"\"";
  return json;
}

std::string JsonNumber(double number) {
  if (!std::isfinite(number)) return "null";
  // Long enough for every double: std::to_chars writes at most 24 characters.
  std::array<char, 32> text;
  const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end.ptr};
}

}  // namespace batchplan
