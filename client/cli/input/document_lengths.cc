#include "client/cli/input/document_lengths.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {
namespace {

// Texts are gathered until they have this many bytes or documents, and then counted together.
constexpr size_t kGatheredBytes = 1 << 20;
constexpr size_t kWaitingDocuments = 1 << 12;
// A longer text is counted in pieces of about this size.
constexpr size_t kPieceBytes = 256 << 10;

// Where to cut `text`: before the last space that follows another character, in its second half.
size_t CutBefore(absl::string_view text) {
  for (size_t i = text.size() - 1; i > text.size() / 2; --i) {
    if (absl::ascii_isspace(static_cast<unsigned char>(text[i])) &&
        !absl::ascii_isspace(static_cast<unsigned char>(text[i - 1]))) {
      return i;
    }
  }
  // Without such a space, at the end, but not within a character of UTF-8.
  size_t cut = text.size();
  while (cut > text.size() - 4 && (static_cast<unsigned char>(text[cut - 1]) & 0xC0) == 0x80) --cut;
  return cut - 1;
}

}  // namespace

DocumentLengths::DocumentLengths(const Options& options, Tokenizer* tokenizer, LengthFunction visit)
    : options_(options), tokenizer_(tokenizer), visit_(std::move(visit)) {}

absl::StatusOr<bool> DocumentLengths::AddToText(absl::string_view piece) {
  open_.text_bytes += piece.size();
  if (tokenizer_ == nullptr) return true;
  absl::StrAppend(&piece_, piece);
  absl::string_view rest = piece_;
  while (rest.size() > kPieceBytes) {
    const size_t cut = CutBefore(rest.substr(0, kPieceBytes));
    Gather(std::string(rest.substr(0, cut)));
    rest.remove_prefix(cut);
    absl::StatusOr<bool> more = FlushIfMuch();
    if (!more.ok() || !*more) return more;
  }
  piece_ = std::string(rest);
  return true;
}

absl::StatusOr<bool> DocumentLengths::EndText(const std::string& place) {
  if (open_.text_bytes == 0) return true;
  Gather(std::exchange(piece_, ""));
  open_.place = place;
  return End();
}

absl::StatusOr<bool> DocumentLengths::AddRecord(RecordContent content, const std::string& place) {
  open_.is_record = true;
  open_.place = place;
  open_.tokens = content.tokens;
  if (tokenizer_ == nullptr) open_.text_bytes = content.text_bytes;
  for (std::string& text : content.texts) {
    if (text.size() <= kPieceBytes) {
      open_.text_bytes += text.size();
      Gather(std::move(text));
      continue;
    }
    absl::StatusOr<bool> more = AddToText(text);
    if (!more.ok() || !*more) return more;
    Gather(std::exchange(piece_, ""));
  }
  return End();
}

absl::StatusOr<bool> DocumentLengths::Flush() {
  std::vector<Document> ended = std::exchange(waiting_, {});
  if (!texts_.empty()) {
    const absl::StatusOr<std::vector<uint32_t>> counts = tokenizer_->Count(texts_);
    if (!counts.ok()) return counts.status();
    for (size_t i = 0; i < texts_.size(); ++i) {
      (documents_[i] < ended.size() ? ended[documents_[i]] : open_).tokens += (*counts)[i];
    }
    texts_.clear();
    documents_.clear();
    gathered_bytes_ = 0;
  }
  for (const Document& document : ended) {
    absl::StatusOr<bool> more = Emit(document);
    if (!more.ok() || !*more) return more;
  }
  return true;
}

absl::StatusOr<bool> DocumentLengths::End() {
  Document ended = std::exchange(open_, Document());
  if (tokenizer_ == nullptr) return Emit(ended);
  waiting_.push_back(std::move(ended));
  return FlushIfMuch();
}

void DocumentLengths::Gather(std::string text) {
  if (text.empty()) return;
  gathered_bytes_ += text.size();
  texts_.push_back(std::move(text));
  documents_.push_back(waiting_.size());
}

absl::StatusOr<bool> DocumentLengths::FlushIfMuch() {
  if (gathered_bytes_ < kGatheredBytes && waiting_.size() < kWaitingDocuments) return true;
  return Flush();
}

absl::StatusOr<bool> DocumentLengths::Emit(const Document& document) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  double length = static_cast<double>(document.tokens);
  if (tokenizer_ == nullptr) {
    length += std::ceil(static_cast<double>(document.text_bytes) / options_.bytes_per_token);
  }
  if (length > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat(document.place, ": has more tokens than a length can be, ", kMost));
  }
  if (length >= 1) return visit_(static_cast<uint32_t>(length));
  if (!document.is_record) return true;
  if (options_.skips_empty_records) {
    ++skipped_records_;
    return true;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      document.place,
      ": has length 0, which can't be planned; --skip_empty passes over such records"));
}

}  // namespace batchplan::cli
