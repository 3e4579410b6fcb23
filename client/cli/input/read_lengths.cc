#include "client/cli/input/read_lengths.h"

#include <cstdint>
#include <istream>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {
namespace {

// An error repeats this much of a wrong line, which may be a whole binary file.
constexpr size_t kQuotedBytes = 40;

constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CEscape(text.substr(0, kQuotedBytes)), "\"");
}

// Stands for "no group" where other columns follow, and for "no items".
constexpr absl::string_view kNone = "-";

// Appends the number in `column`, which is empty if the line does not have it. Either all lines
// have the column or none; `is_first` marks the first line.
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

// Reads the number in a load's column, or one of its items.
absl::StatusOr<double> ReadAmount(absl::string_view line, absl::string_view text,
                                  const std::string& load) {
  double amount = 0;
  if (absl::SimpleAtod(text, &amount)) return amount;
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(line), ": ", Quoted(text), " is not a number of ", Quoted(load)));
}

// Appends the load in `column`.
absl::Status ReadLoad(absl::string_view line, absl::string_view column, const LoadColumn& load,
                      int place, v1::Manifest* manifest) {
  const auto sequence = static_cast<uint32_t>(manifest->lengths_size());
  if (!load.has_items) {
    const absl::StatusOr<double> amount = ReadAmount(line, column, load.name);
    if (!amount.ok()) return amount.status();
    manifest->mutable_loads(place)->add_values(*amount);
    return absl::OkStatus();
  }
  if (column == kNone) return absl::OkStatus();
  for (v1::LoadItems& items : *manifest->mutable_items()) {
    if (items.load() != load.name) continue;
    for (const absl::string_view item : absl::StrSplit(column, ',')) {
      const absl::StatusOr<double> amount = ReadAmount(line, item, load.name);
      if (!amount.ok()) return amount.status();
      items.add_sequences(sequence);
      items.add_values(*amount);
    }
  }
  return absl::OkStatus();
}

// "a prefix and the earlier sequence that it is shared with, a kind, patches".
std::string LastColumns(const LengthColumns& meaning) {
  std::vector<std::string> names;
  if (meaning.has_prefix) {
    names.emplace_back("a prefix and the earlier sequence that it is shared with");
  } else if (meaning.has_prompt) {
    names.emplace_back("the prompt's length");
  }
  if (meaning.has_kind) names.emplace_back("a kind");
  for (const LoadColumn& load : meaning.loads) names.push_back(absl::CEscape(load.name));
  return absl::StrJoin(names, ", ");
}

// Reads what the line's sequence shares, its kind and its loads, and removes these columns.
absl::Status ReadLast(absl::string_view line, const LengthColumns& meaning,
                      std::vector<absl::string_view>& columns, v1::Manifest* manifest) {
  if (columns.size() <= meaning.last()) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(line), " has ", columns.size(), columns.size() == 1 ? " column" : " columns",
        "; behind the length it must have ", LastColumns(meaning)));
  }
  const bool is_first = manifest->lengths_size() == 0;
  const absl::string_view* next = columns.data() + (columns.size() - meaning.last());
  absl::Status read;
  if (meaning.shared() > 0) {
    read = ReadColumn(line, *next++, meaning.has_prefix ? "prefix" : "prompt length", is_first,
                      manifest->mutable_shared_prefixes());
  }
  if (meaning.shared() > 1) {
    read.Update(ReadColumn(line, *next++, "sequence", is_first, manifest->mutable_shared_with()));
  }
  if (meaning.has_kind) {
    read.Update(ReadColumn(line, *next++, "kind", is_first, manifest->mutable_kinds()));
  }
  for (size_t i = 0; i < meaning.loads.size(); ++i) {
    read.Update(ReadLoad(line, *next++, meaning.loads[i], static_cast<int>(i), manifest));
  }
  columns.resize(columns.size() - meaning.last());
  return read;
}

// Appends one line, which has no comment and is not blank. The caller puts "file:line: " before an
// error.
absl::Status ReadLine(absl::string_view text, const LengthColumns& meaning,
                      v1::Manifest* manifest) {
  std::vector<absl::string_view> columns =
      absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  absl::Status read = ReadLast(text, meaning, columns, manifest);
  if (!read.ok()) return read;
  uint32_t length = 0;
  if (!absl::SimpleAtoi(columns[0], &length) || length == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is not a length: a whole number of tokens, 1 to ", kMost));
  }
  if (columns.size() > 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(text), " has ", columns.size() + meaning.last(),
        " columns; a line is a length, a length and a group, or a length, a group and ",
        meaning.is_age ? "an age" : "a rank",
        meaning.last() > 0 ? absl::StrCat(", and then ", LastColumns(meaning)) : ""));
  }
  const bool is_first = manifest->lengths_size() == 0;
  const bool has_third = columns.size() == 3;
  const bool grouped = columns.size() > 1 && !(has_third && columns[1] == kNone);
  read =
      ReadColumn(text, grouped ? columns[1] : "", "group", is_first, manifest->mutable_group_ids());
  const absl::string_view last = has_third ? columns[2] : "";
  read.Update(meaning.is_age ? ReadColumn(text, last, "age", is_first, manifest->mutable_ages())
                             : ReadColumn(text, last, "rank", is_first, manifest->mutable_ranks()));
  if (!read.ok()) return read;
  manifest->add_lengths(length);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadLengths(std::istream& stream, const std::string& name,
                         const LengthColumns& columns, v1::Manifest* manifest) {
  for (const LoadColumn& load : columns.loads) {
    manifest->add_loads()->set_name(load.name);
    if (load.has_items) manifest->add_items()->set_load(load.name);
  }
  std::string line;
  for (int64_t number = 1; std::getline(stream, line); ++number) {
    absl::string_view text = line;
    text = absl::StripAsciiWhitespace(text.substr(0, text.find('#')));
    if (text.empty()) continue;
    if (absl::Status read = ReadLine(text, columns, manifest); !read.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", read.message()));
    }
  }
  if (stream.bad()) return absl::DataLossError(absl::StrCat(name, ": can't be read"));
  return absl::OkStatus();
}

}  // namespace batchplan::cli
