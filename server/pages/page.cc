#include "server/pages/page.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace batchplan {
namespace {

constexpr absl::string_view kMark = "<!-- DATA -->\n";

}  // namespace

std::string FillPage(absl::string_view page, const std::vector<PageData>& data) {
  const size_t mark = page.find(kMark);
  std::string filled(page.substr(0, mark));
  for (const PageData& item : data) {
    // In JSON, these characters occur in strings only, where an escape means the same.
    absl::StrAppend(&filled, "<script type=\"application/json\" id=\"", item.id, "\">",
                    absl::StrReplaceAll(item.json, {{"<", "\\u003c"}, {">", "\\u003e"}}),
                    "</script>\n");
  }
  if (mark != absl::string_view::npos) {
    absl::StrAppend(&filled, page.substr(mark + kMark.size()));
  }
  return filled;
}

}  // namespace batchplan
