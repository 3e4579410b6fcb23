#include "client/cli/input/read_documents.h"

#include <array>
#include <cstdint>
#include <istream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/document_lengths.h"
#include "client/cli/input/record_reader.h"

namespace batchplan::cli {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

absl::StatusOr<bool> AtEnd(const std::istream& stream, const std::string& name) {
  if (stream.bad()) return absl::DataLossError(absl::StrCat(name, ": can't be read"));
  return true;
}

}  // namespace

absl::StatusOr<bool> ReadText(std::istream& stream, const std::string& name, Unit unit,
                              DocumentLengths* documents) {
  if (unit == Unit::kFile) {
    std::array<char, kBufferBytes> buffer;
    while (stream.read(buffer.data(), buffer.size()) || stream.gcount() > 0) {
      absl::StatusOr<bool> more =
          documents->AddToText({buffer.data(), static_cast<size_t>(stream.gcount())});
      if (!more.ok() || !*more) return more;
    }
    // A text that can't be read to its end does not count.
    if (stream.bad()) return AtEnd(stream, name);
    return documents->EndText(name);
  }
  std::string line;
  while (std::getline(stream, line)) {
    const bool blank = absl::StripAsciiWhitespace(line).empty();
    if (!blank) {
      if (unit == Unit::kParagraph) line += '\n';
      absl::StatusOr<bool> more = documents->AddToText(line);
      if (!more.ok() || !*more) return more;
    }
    if (blank || unit == Unit::kLine) {
      absl::StatusOr<bool> more = documents->EndText(name);
      if (!more.ok() || !*more) return more;
    }
  }
  absl::StatusOr<bool> more = documents->EndText(name);
  return more.ok() && *more ? AtEnd(stream, name) : more;
}

absl::StatusOr<bool> ReadRecords(std::istream& stream, const std::string& name, RecordLayout layout,
                                 const std::vector<std::string>& fields, DocumentLengths* documents,
                                 int64_t* records) {
  // Skips space before an array.
  int64_t number = 1;
  for (int next = stream.peek(); absl::ascii_isspace(static_cast<unsigned char>(next));
       next = stream.peek()) {
    if (stream.get() == '\n') ++number;
  }
  const bool by_line = layout != RecordLayout::kObjects && stream.peek() != '[';
  const bool is_row = !by_line || layout == RecordLayout::kRows;
  const auto place = [&](int64_t at) { return absl::StrCat(name, is_row ? ": record " : ":", at); };

  int64_t measured = 0;
  absl::Status failed;
  RecordReader reader(fields, documents->needs_texts(), [&](RecordContent content) {
    ++measured;
    absl::StatusOr<bool> more =
        documents->AddRecord(std::move(content), place(by_line ? number : measured));
    failed = more.status();
    return more.ok() && *more;
  });
  absl::StatusOr<bool> more = true;
  if (by_line) {
    std::string line;
    for (; more.ok() && *more && std::getline(stream, line); ++number) {
      if (absl::StripAsciiWhitespace(line).empty()) continue;
      more = reader.ReadLine(line);
      if (!more.ok()) break;
    }
  } else {
    more = reader.ReadStream(stream);
  }
  if (records != nullptr) *records = measured;
  if (!failed.ok()) return failed;
  if (!more.ok()) {
    return absl::Status(more.status().code(), absl::StrCat(place(by_line ? number : measured + 1),
                                                           ": ", more.status().message()));
  }
  return *more ? AtEnd(stream, name) : more;
}

}  // namespace batchplan::cli
