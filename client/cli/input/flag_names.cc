#include "client/cli/input/flag_names.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace batchplan::cli {
namespace {

bool IsOfAName(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// The size of the field that `text` begins with: names, dots between them, and positions in
// brackets.
size_t FieldSize(absl::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    if (IsOfAName(text[end])) {
      ++end;
    } else if (text[end] == '.' && end + 1 < text.size() && IsOfAName(text[end + 1])) {
      end += 2;
    } else if (text[end] == '[') {
      const size_t close = text.find_first_not_of("0123456789", end + 1);
      if (close == absl::string_view::npos || text[close] != ']') break;
      end = close + 1;
    } else {
      break;
    }
  }
  return end;
}

// "passes[0].buckets[2]" becomes "passes.buckets"; "request." of a JoinBatchRequest is dropped.
std::string Path(absl::string_view field) {
  absl::ConsumePrefix(&field, "request.");
  std::string path;
  bool is_position = false;
  for (const char c : field) {
    if (c == '[') is_position = true;
    if (!is_position) path += c;
    if (c == ']') is_position = false;
  }
  return path;
}

// Whether the command has the flag, and no flag that excludes it is set.
bool IsPossible(const std::string& flag, const CLI::App& app) {
  const CLI::Option* option = app.get_option_no_throw(flag);
  if (option == nullptr) return false;
  const std::set<CLI::Option*> others = option->get_excludes();
  return std::ranges::none_of(others, [](const CLI::Option* other) { return other->count() > 0; });
}

}  // namespace

void FlagNames::Add(const std::string& path, const std::string& flag) {
  by_path_.emplace(path, flag);
  const std::string name = path.substr(path.rfind('.') + 1);
  if (absl::StrContains(name, '_')) by_name_.emplace(name, flag);
}

std::string FlagNames::Find(std::string path) const {
  if (!absl::StrContains(path, '.')) {
    const auto found = by_name_.find(path);
    if (found != by_name_.end() && found->second != absl::StrCat("--", path)) return found->second;
    return "";
  }
  while (true) {
    if (const auto found = by_path_.find(path); found != by_path_.end()) return found->second;
    const size_t dot = path.rfind('.');
    if (dot == std::string::npos) return "";
    path.resize(dot);
  }
}

std::string FlagNames::Annotate(absl::string_view text, const CLI::App& app) const {
  std::string annotated;
  std::set<std::string> named;
  for (size_t i = 0; i < text.size();) {
    const size_t size = FieldSize(text.substr(i));
    if (size == 0) {
      annotated += text[i++];
      continue;
    }
    const absl::string_view field = text.substr(i, size);
    const bool is_quoted = i > 0 && text[i - 1] == '"';
    absl::StrAppend(&annotated, field);
    i += size;
    const std::string flag = is_quoted ? "" : Find(Path(field));
    if (!flag.empty() && IsPossible(flag, app) && named.insert(flag).second) {
      absl::StrAppend(&annotated, " (", flag, ")");
    }
  }
  return annotated;
}

}  // namespace batchplan::cli
