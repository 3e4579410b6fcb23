#include "client/cli/lengths_file.h"

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

// Appends what one line, without comment and not blank, says. The error goes behind "file:line: ".
absl::Status ReadLine(absl::string_view text, v1::Manifest* manifest) {
  const std::vector<absl::string_view> columns =
      absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  uint32_t length = 0;
  if (!absl::SimpleAtoi(columns[0], &length) || length == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is not a length: a whole number of tokens, 1 to ", kMost));
  }
  if (columns.size() > 2) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " has ", columns.size(),
                                                   " columns; a line is a length, or a length and "
                                                   "a group"));
  }
  const bool grouped = columns.size() == 2;
  if (manifest->lengths_size() > 0 && grouped != (manifest->group_ids_size() > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), grouped ? " has a group, but the lines before have none"
                                           : " has no group, but the lines before have one"));
  }
  if (grouped) {
    uint32_t group = 0;
    if (!absl::SimpleAtoi(columns[1], &group)) {
      return absl::InvalidArgumentError(absl::StrCat(
          Quoted(text), ": ", Quoted(columns[1]), " is not a group: a whole number, 0 to ", kMost));
    }
    manifest->add_group_ids(group);
  }
  manifest->add_lengths(length);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadLengths(std::istream& stream, const std::string& name, v1::Manifest* manifest) {
  std::string line;
  for (int64_t number = 1; std::getline(stream, line); ++number) {
    absl::string_view text = line;
    text = absl::StripAsciiWhitespace(text.substr(0, text.find('#')));
    if (text.empty()) continue;
    if (absl::Status read = ReadLine(text, manifest); !read.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", read.message()));
    }
  }
  if (stream.bad()) return absl::DataLossError(absl::StrCat(name, ": can't be read"));
  return absl::OkStatus();
}

}  // namespace batchplan::cli
