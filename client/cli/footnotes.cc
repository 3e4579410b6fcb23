#include "client/cli/footnotes.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace batchplan::cli {

std::string Footnotes::Mark(const std::string& note) {
  auto found = std::find(notes_.begin(), notes_.end(), note);
  if (found == notes_.end()) found = notes_.insert(notes_.end(), note);
  return absl::StrCat("[", found - notes_.begin() + 1, "]");
}

std::string Footnotes::ToString() const {
  std::string text;
  for (size_t i = 0; i < notes_.size(); ++i) {
    absl::StrAppend(&text, "[", i + 1, "] ", notes_[i], "\n");
  }
  return text;
}

}  // namespace batchplan::cli
