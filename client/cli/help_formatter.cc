#include "client/cli/help_formatter.h"

#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {
namespace {

constexpr size_t kDescriptionColumn = 34;
constexpr size_t kDescriptionWidth = 64;

}  // namespace

HelpFormatter::HelpFormatter() { column_width(kDescriptionColumn); }

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  const std::string type = option->get_type_name();
  return type.empty() ? "" : absl::StrCat(" ", type);
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string wrapped;
  size_t width = 0;
  for (const absl::string_view word : absl::StrSplit(option->get_description(), ' ')) {
    if (width > 0) {
      const bool full = width + 1 + word.size() > kDescriptionWidth;
      wrapped += full ? '\n' : ' ';
      width = full ? 0 : width + 1;
    }
    absl::StrAppend(&wrapped, word);
    width += word.size();
  }
  return wrapped;
}

}  // namespace batchplan::cli
