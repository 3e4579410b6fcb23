#include "client/cli/input/record_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ios>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {
namespace {

using nlohmann::json;

// A record is of a format if it has the needed fields; the added ones are measured if present.
struct Format {
  std::vector<std::string> needed;
  std::vector<std::string> added;
};

// A record with both of these holds preferences: two sequences, and no format says which to
// measure.
constexpr std::array<const char*, 2> kPreferences = {"chosen", "rejected"};

const std::vector<Format>& Formats() {
  static const auto* const formats = new std::vector<Format>{
      {{"input_ids"}, {}},
      {{"text"}, {}},
      {{"messages"}, {}},
      {{"conversations"}, {"system"}},
      {{"prompt", "completion"}, {}},
      {{"instruction", "output"}, {"input", "system", "history"}},
  };
  return *formats;
}

// Deeper than any field of a data set.
constexpr size_t kMaxLevels = 32;

constexpr double kMostTokens = std::numeric_limits<uint32_t>::max();

// An error repeats this much of the parser's, which quotes what it read.
constexpr size_t kQuotedBytes = 100;

bool IsContentOfMessage(absl::string_view key) {
  return key == "content" || key == "value" || key == "text";
}

// What has been read of a field of the record.
struct Slot {
  bool is_given = false;
  // A field that is null has no content, and does not count as one that a format needs.
  bool is_null = false;
  // Why the field can't be measured; empty if it can.
  std::string error;
  RecordContent content;
};

// What the values in an object or an array are.
enum class Inside : uint8_t {
  kArray,    // records
  kPath,     // fields of a record, or of an object on the path to a measured field
  kTokens,   // entries of an array that is a measured field
  kTexts,    // entries of an array within a message or another array
  kMessage,  // fields of a message: its content, and others that are not measured
};

// An open object or array.
struct Level {
  Inside inside;
  // For kPath: what stands before the names of its fields, such as "a.b.".
  std::string path;
  std::string key;
};

// Skips white space; returns the next character and leaves it in the stream.
int Next(std::istream& stream) {
  int next = stream.peek();
  for (; next == ' ' || next == '\t' || next == '\n' || next == '\r'; next = stream.peek()) {
    stream.get();
  }
  return next;
}

enum class Scalar : uint8_t { kBoolean, kNumber, kString };

}  // namespace

const std::vector<std::string>& FormatFields() {
  static const auto* const fields = [] {
    auto* const all = new std::vector<std::string>(kPreferences.begin(), kPreferences.end());
    for (const Format& format : Formats()) {
      for (const auto* names : {&format.needed, &format.added}) {
        for (const std::string& name : *names) {
          if (std::find(all->begin(), all->end(), name) == all->end()) all->push_back(name);
        }
      }
    }
    return all;
  }();
  return *fields;
}

// Receives the parser's events and keeps only what is measured.
class RecordReader::Handler final : public nlohmann::json_sax<json> {
 public:
  Handler(const std::vector<std::string>& fields, bool keeps_texts, RecordFunction visit)
      : is_named_(!fields.empty()),
        fields_(is_named_ ? fields : FormatFields()),
        keeps_texts_(keeps_texts),
        visit_(std::move(visit)) {}

  // Begins a JSON text: a record or, if `may_be_array`, an array of records.
  void Begin(bool may_be_array) {
    levels_.clear();
    ignored_ = 0;
    may_be_array_ = may_be_array;
  }

  int64_t records() const { return records_; }

  // After the text: whether the caller wants more records.
  absl::StatusOr<bool> Result() const {
    if (!status_.ok()) return status_;
    return !stopped_;
  }

  bool null() override {
    if (ignored_ > 0) return true;
    if (AtRecord()) return Stop("not a JSON object");
    Slot* slot = levels_.back().inside == Inside::kPath ? BeginField() : nullptr;
    if (slot != nullptr) slot->is_null = true;
    return true;
  }
  bool boolean(bool /*value*/) override { return OnScalar(Scalar::kBoolean, 0, nullptr); }
  bool number_integer(int64_t value) override {
    return OnScalar(Scalar::kNumber, static_cast<double>(value), nullptr);
  }
  bool number_unsigned(uint64_t value) override {
    return OnScalar(Scalar::kNumber, static_cast<double>(value), nullptr);
  }
  bool number_float(double value, const std::string& /*text*/) override {
    return OnScalar(Scalar::kNumber, value, nullptr);
  }
  bool string(std::string& value) override { return OnScalar(Scalar::kString, 0, &value); }
  bool binary(json::binary_t& /*value*/) override { return true; }

  bool start_object(size_t /*elements*/) override {
    if (ignored_ > 0) return Ignore();
    if (AtRecord()) {
      slots_.assign(fields_.size(), Slot());
      return Open(Inside::kPath, "");
    }
    if (levels_.back().inside == Inside::kPath) {
      slot_ = BeginField();
      if (slot_ == nullptr) {
        std::string path = absl::StrCat(levels_.back().path, levels_.back().key, ".");
        for (const std::string& field : fields_) {
          if (absl::StartsWith(field, path)) return Open(Inside::kPath, std::move(path));
        }
        return Ignore();
      }
    } else if (IsIgnoredInMessage()) {
      return Ignore();
    }
    return Open(Inside::kMessage, "");
  }

  bool start_array(size_t /*elements*/) override {
    if (ignored_ > 0) return Ignore();
    if (AtRecord()) {
      if (!levels_.empty() || !may_be_array_) return Stop("not a JSON object");
      return Open(Inside::kArray, "");
    }
    if (levels_.back().inside == Inside::kPath) {
      slot_ = BeginField();
      if (slot_ == nullptr) return Ignore();
      return Open(Inside::kTokens, "");
    }
    return IsIgnoredInMessage() ? Ignore() : Open(Inside::kTexts, "");
  }

  bool key(std::string& name) override {
    if (ignored_ == 0) levels_.back().key.swap(name);
    return true;
  }

  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool parse_error(size_t position, const std::string& /*last_token*/,
                   const json::exception& error) override {
    // Without the parser's "[json.exception...] parse error at line 1, column 2: ".
    absl::string_view why = error.what();
    const size_t end = why.find(error.id == 101 ? ": " : "] ");
    if (end != absl::string_view::npos) why.remove_prefix(end + 2);
    return Stop(absl::StrCat("not a JSON object: ", absl::CHexEscape(why.substr(0, kQuotedBytes)),
                             ", at byte ", position));
  }

 private:
  // Whether the value that begins must be a record or the array of records.
  bool AtRecord() const { return levels_.empty() || levels_.back().inside == Inside::kArray; }

  bool IsIgnoredInMessage() const {
    return levels_.back().inside == Inside::kMessage && !IsContentOfMessage(levels_.back().key);
  }

  // The slot of the field at the current key; null if that field is not measured.
  Slot* BeginField() {
    const Level& level = levels_.back();
    for (size_t i = 0; i < fields_.size(); ++i) {
      const absl::string_view field = fields_[i];
      if (field.size() == level.path.size() + level.key.size() &&
          absl::StartsWith(field, level.path) && absl::EndsWith(field, level.key)) {
        Slot* const slot = &slots_[i];
        if (slot->is_given) Refuse(slot, "is given twice");
        slot->is_given = true;
        return slot;
      }
    }
    return nullptr;
  }

  // Ignores an object or array and everything in it.
  bool Ignore() {
    ++ignored_;
    return true;
  }

  bool Open(Inside inside, std::string path) {
    if (levels_.size() == kMaxLevels) {
      Refuse(slot_, absl::StrCat("is more than ", kMaxLevels, " levels deep"));
      return Ignore();
    }
    levels_.push_back({inside, std::move(path), ""});
    return true;
  }

  bool Close() {
    if (ignored_ > 0) {
      --ignored_;
      return true;
    }
    const bool was_array = levels_.back().inside == Inside::kArray;
    levels_.pop_back();
    return was_array || !AtRecord() || EndRecord();
  }

  static void Refuse(Slot* slot, std::string why) {
    if (slot->error.empty()) slot->error = std::move(why);
  }

  void AddText(Slot* slot, std::string* text) const {
    slot->content.text_bytes += text->size();
    if (keeps_texts_ && !text->empty()) slot->content.texts.push_back(std::move(*text));
  }

  bool OnScalar(Scalar kind, double number, std::string* text) {
    if (ignored_ > 0) return true;
    if (AtRecord()) return Stop("not a JSON object");
    switch (levels_.back().inside) {
      case Inside::kPath: {
        Slot* const slot = BeginField();
        if (slot == nullptr) break;
        if (kind == Scalar::kString) {
          AddText(slot, text);
        } else if (kind == Scalar::kBoolean) {
          Refuse(slot, "is not a string, a list or a number");
        } else if (number >= 0 && number <= kMostTokens && number == std::floor(number)) {
          slot->content.tokens += static_cast<uint64_t>(number);
        } else {
          Refuse(slot, absl::StrCat("is ", number, ", not a length"));
        }
        break;
      }
      case Inside::kTokens:
        ++slot_->content.tokens;
        break;
      case Inside::kTexts:
        if (kind == Scalar::kString) {
          AddText(slot_, text);
        } else {
          ++slot_->content.tokens;
        }
        break;
      case Inside::kMessage:
        if (!IsContentOfMessage(levels_.back().key)) break;
        if (kind == Scalar::kString) {
          AddText(slot_, text);
        } else {
          Refuse(slot_, "has a message whose content is no text");
        }
        break;
      case Inside::kArray:
        break;
    }
    return true;
  }

  bool Stop(absl::string_view why) {
    status_ = absl::InvalidArgumentError(why);
    return false;
  }

  bool EndRecord() {
    absl::StatusOr<RecordContent> content = Content();
    if (content.ok()) {
      ++records_;
      stopped_ = !visit_(*std::move(content));
    } else {
      status_ = content.status();
    }
    return status_.ok() && !stopped_;
  }

  Slot& SlotOf(const std::string& field) {
    return slots_[std::find(fields_.begin(), fields_.end(), field) - fields_.begin()];
  }

  // The names of the fields to measure.
  absl::StatusOr<std::vector<std::string>> Measured() {
    if (is_named_) {
      for (const std::string& field : fields_) {
        const Slot& slot = SlotOf(field);
        if (!slot.is_given) {
          return absl::InvalidArgumentError(absl::StrCat("has no field \"", field, "\""));
        }
      }
      return fields_;
    }
    const auto is_there = [this](const std::string& field) {
      return SlotOf(field).is_given && !SlotOf(field).is_null;
    };
    if (std::all_of(kPreferences.begin(), kPreferences.end(), is_there)) {
      return absl::InvalidArgumentError(
          "has fields \"chosen\" and \"rejected\", which are two sequences; name the fields of one "
          "by --field, such as prompt,chosen");
    }
    for (const Format& format : Formats()) {
      if (!std::all_of(format.needed.begin(), format.needed.end(), is_there)) continue;
      std::vector<std::string> measured = format.needed;
      measured.insert(measured.end(), format.added.begin(), format.added.end());
      return measured;
    }
    return absl::InvalidArgumentError(
        "has the fields of no format that is known (text; messages; conversations; prompt and "
        "completion; instruction and output; input_ids); name those to measure by --field");
  }

  absl::StatusOr<RecordContent> Content() {
    const absl::StatusOr<std::vector<std::string>> measured = Measured();
    if (!measured.ok()) return measured.status();
    RecordContent content;
    for (const std::string& field : *measured) {
      Slot& slot = SlotOf(field);
      if (!slot.error.empty()) {
        return absl::InvalidArgumentError(absl::StrCat("field \"", field, "\" ", slot.error));
      }
      content.text_bytes += slot.content.text_bytes;
      content.tokens += slot.content.tokens;
      std::move(slot.content.texts.begin(), slot.content.texts.end(),
                std::back_inserter(content.texts));
    }
    return content;
  }

  const bool is_named_;
  const std::vector<std::string> fields_;
  const bool keeps_texts_;
  const RecordFunction visit_;

  bool may_be_array_ = false;
  std::vector<Level> levels_;
  // How many objects and arrays that are not measured are open within levels_.back().
  size_t ignored_ = 0;
  // One for each of fields_.
  std::vector<Slot> slots_;
  // The field being read; null outside of measured fields.
  Slot* slot_ = nullptr;
  int64_t records_ = 0;
  bool stopped_ = false;
  absl::Status status_;
};

RecordReader::RecordReader(const std::vector<std::string>& fields, bool keeps_texts,
                           RecordFunction visit)
    : handler_(std::make_unique<Handler>(fields, keeps_texts, std::move(visit))) {}

RecordReader::~RecordReader() = default;

absl::StatusOr<bool> RecordReader::ReadLine(absl::string_view line) {
  handler_->Begin(/*may_be_array=*/false);
  json::sax_parse(line.begin(), line.end(), handler_.get());
  return handler_->Result();
}

absl::StatusOr<bool> RecordReader::ReadStream(std::istream& stream) {
  try {
    // Skips the byte order mark of UTF-8.
    if (stream.peek() == 0xEF) stream.ignore(3);
    for (int next = Next(stream); next != std::istream::traits_type::eof(); next = Next(stream)) {
      const bool is_array = next == '[';
      handler_->Begin(is_array);
      json::sax_parse(stream, handler_.get(), json::input_format_t::json, /*strict=*/is_array);
      absl::StatusOr<bool> more = handler_->Result();
      if (!more.ok() || !*more) return more;
    }
  } catch (const std::ios_base::failure&) {
    return absl::DataLossError("can't be read");
  }
  if (stream.bad()) return absl::DataLossError("can't be read");
  return true;
}

int64_t RecordReader::records() const { return handler_->records(); }

}  // namespace batchplan::cli
