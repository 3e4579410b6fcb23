// Lengths out of a stream: a file of lengths, or documents whose lengths in tokens are counted or
// estimated.
//
// Streams are read once, in order; of documents, no more than the longest line is held at a time.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_READ_LENGTHS_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_READ_LENGTHS_H_

#include <cstdint>
#include <functional>
#include <istream>
#include <string>

#include "absl/status/status.h"
#include "batchplan/v1/options.pb.h"

namespace batchplan::cli {

// What the third column of a file of lengths is.
enum class ThirdColumn : uint8_t { kRank, kAge };

// A file of lengths has one whole number a line, or two, the length and the sequence's group, or
// three, with the rank that has it, or its age, behind; - in the second column stands for no group.
// Blank lines, and everything from a # to the end of its line, are ignored.
//
// Fills `manifest`, empty so far, with the lengths that `stream` holds, their groups and ranks or
// ages. InvalidArgument, naming `name`, line and text, for a line that is not a length from 1 to
// 2^32 - 1, alone or with a group, or a group and the third, from 0 to 2^32 - 1; or if some lines
// have a group, or the third, and some none.
absl::Status ReadLengths(std::istream& stream, const std::string& name, ThirdColumn third,
                         v1::Manifest* manifest);

// What is one document of a text.
enum class Unit : uint8_t {
  kFile,       // the whole text
  kLine,       // a line, without its end
  kParagraph,  // lines up to a blank one, with their ends
};

// Takes the length of the next document, at least 1; returns whether to go on.
using LengthFunction = std::function<bool(uint32_t tokens)>;

// Calls `visit` with the estimated length of each document of `text`: its bytes /
// `bytes_per_token`, rounded up. Empty documents are passed over. DataLoss if reading fails.
absl::Status ForEachText(std::istream& text, const std::string& name, Unit unit,
                         double bytes_per_token, const LengthFunction& visit);

// The same for JSON lines: each line is one object, whose length is in the field at the dotted path
// `field`. A string is text, to be estimated; a list is one of tokens, and counted; a number is the
// length itself. Blank lines, and documents of length 0, are passed over. InvalidArgument, naming
// `name` and line, for a line that is not a JSON object, lacks the field, or has something else
// there.
absl::Status ForEachJsonLine(std::istream& lines, const std::string& name, const std::string& field,
                             double bytes_per_token, const LengthFunction& visit);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_READ_LENGTHS_H_
