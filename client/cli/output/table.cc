#include "client/cli/output/table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace batchplan::cli {

std::string Table::ToString() const {
  std::vector<size_t> widths(columns_.size());
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      if (i > 0) line += "  ";
      if (columns_[i] == Justify::kRight) {
        absl::StrAppend(&line, padding, row[i]);
      } else {
        absl::StrAppend(&line, row[i], padding);
      }
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

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

std::string WithThousands(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, 1, ',');
  return digits;
}

std::string Percent(double share) { return absl::StrFormat("%.1f%%", 100 * share); }

std::string Decimal(double number) {
  // From six digits on, %g would drop some. Beyond kMost, the digits mean nothing.
  constexpr double kGrouped = 1e5;
  constexpr double kMost = 1e18;
  if (number < kGrouped || number > kMost) return absl::StrFormat("%.6g", number);
  return WithThousands(static_cast<uint64_t>(std::llround(number)));
}

std::string Milliseconds(double milliseconds) {
  // From four digits on, %g would use an exponent.
  if (milliseconds < 999.5) return absl::StrFormat("%.3g ms", milliseconds);
  return absl::StrCat(Decimal(std::round(milliseconds)), " ms");
}

}  // namespace batchplan::cli
