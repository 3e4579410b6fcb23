// Records of data sets: JSON objects that hold a text, a chat or tokens, and what of them is
// measured.
//
// What is measured are the fields that the caller names, or those of the first of these formats
// that the record has; a field that is null is as good as absent:
//   input_ids                          tokens
//   text                               a text
//   messages                           a chat
//   conversations, and system if any   a chat, as ShareGPT has it
//   prompt, completion                 texts or chats, added up
//   instruction, output, and input, system and history if any   as Alpaca has them, added up
// A record with both `chosen` and `rejected` is of none: its fields have to be named.
//
// A field is
//   a string: a text;
//   a list of numbers or strings: tokens, counted;
//   a list of objects, or one: messages, of which `content`, `value` or `text` is measured, each a
//     string, or a list of parts that are strings or such objects; nothing else of them is;
//   a list of lists: the texts and tokens in them;
//   a whole number: the length itself.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_RECORD_READER_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_RECORD_READER_H_

#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {

// What of a record is measured.
struct RecordContent {
  // Of all texts.
  uint64_t text_bytes = 0;
  // Given as tokens, or as a length.
  uint64_t tokens = 0;
  // If they are asked for.
  std::vector<std::string> texts;
};

// Takes the next record; returns whether to go on.
using RecordFunction = std::function<bool(RecordContent content)>;

// The names of all fields at the top of a record that any of the formats has.
const std::vector<std::string>& FormatFields();

// Reads records without holding more of them than their texts, and of these what is measured. Not
// thread-safe.
class RecordReader {
 public:
  // `fields` are dotted paths, as in "a.b"; empty: those of the record's format. `visit` gets texts
  // if `keeps_texts`.
  RecordReader(const std::vector<std::string>& fields, bool keeps_texts, RecordFunction visit);
  ~RecordReader();

  // The record that `line` is. False if `visit` ended the reading. InvalidArgument, saying why, if
  // it is not a JSON object, or its content can't be measured.
  absl::StatusOr<bool> ReadLine(absl::string_view line);

  // All records of `stream`: one array of objects, or objects one after another. Memory for the
  // longest string. The same errors; DataLoss if reading fails.
  absl::StatusOr<bool> ReadStream(std::istream& stream);

  // Those that `visit` got.
  int64_t records() const;

 private:
  class Handler;
  std::unique_ptr<Handler> handler_;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_RECORD_READER_H_
