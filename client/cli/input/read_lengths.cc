#include "client/cli/input/read_lengths.h"

#include <cstdint>
#include <istream>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {
namespace {

// How much of a wrong line an error repeats: it may be a whole binary file.
constexpr size_t kQuotedBytes = 40;

constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CEscape(text.substr(0, kQuotedBytes)), "\"");
}

// In the place of a group, for what is behind it.
constexpr absl::string_view kNoGroup = "-";

// Appends the number in a column that either all lines have or none, `is_first` being the first;
// empty: the line has none.
absl::Status ReadColumn(absl::string_view line, absl::string_view column, absl::string_view name,
                        bool is_first, google::protobuf::RepeatedField<uint32_t>* values) {
  const absl::string_view article = name == "age" ? "an " : "a ";
  if (!is_first && column.empty() != values->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(line), column.empty() ? " has no " : absl::StrCat(" has ", article), name,
        column.empty() ? ", but the lines before have one" : ", but the lines before have none"));
  }
  if (column.empty()) return absl::OkStatus();
  uint32_t value = 0;
  if (!absl::SimpleAtoi(column, &value)) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(line), ": ", Quoted(column), " is not ",
                                                   article, name, ": a whole number, 0 to ",
                                                   kMost));
  }
  values->Add(value);
  return absl::OkStatus();
}

// Appends what one line, without comment and not blank, says. The error goes behind "file:line: ".
absl::Status ReadLine(absl::string_view text, ThirdColumn third, v1::Manifest* manifest) {
  const std::vector<absl::string_view> columns =
      absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  uint32_t length = 0;
  if (!absl::SimpleAtoi(columns[0], &length) || length == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is not a length: a whole number of tokens, 1 to ", kMost));
  }
  if (columns.size() > 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(text), " has ", columns.size(),
        " columns; a line is a length, a length and a group, or a length, a group and ",
        third == ThirdColumn::kRank ? "a rank" : "an age"));
  }
  const bool is_first = manifest->lengths_size() == 0;
  const bool has_third = columns.size() == 3;
  const bool grouped = columns.size() > 1 && !(has_third && columns[1] == kNoGroup);
  absl::Status read =
      ReadColumn(text, grouped ? columns[1] : "", "group", is_first, manifest->mutable_group_ids());
  const absl::string_view last = has_third ? columns[2] : "";
  read.Update(third == ThirdColumn::kRank
                  ? ReadColumn(text, last, "rank", is_first, manifest->mutable_ranks())
                  : ReadColumn(text, last, "age", is_first, manifest->mutable_ages()));
  if (!read.ok()) return read;
  manifest->add_lengths(length);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadLengths(std::istream& stream, const std::string& name, ThirdColumn third,
                         v1::Manifest* manifest) {
  std::string line;
  for (int64_t number = 1; std::getline(stream, line); ++number) {
    absl::string_view text = line;
    text = absl::StripAsciiWhitespace(text.substr(0, text.find('#')));
    if (text.empty()) continue;
    if (absl::Status read = ReadLine(text, third, manifest); !read.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", read.message()));
    }
  }
  if (stream.bad()) return absl::DataLossError(absl::StrCat(name, ": can't be read"));
  return absl::OkStatus();
}

}  // namespace batchplan::cli
