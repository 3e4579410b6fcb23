// Text cut into documents, and their lengths in tokens.
//
// Streams are read once, in order, and never held as a whole: memory is that of the longest line.

#ifndef BATCHPLAN_CLIENT_CLI_DOCUMENTS_H_
#define BATCHPLAN_CLIENT_CLI_DOCUMENTS_H_

#include <cstdint>
#include <functional>
#include <istream>
#include <string>

#include "absl/status/status.h"

namespace batchplan::cli {

// What is one document of a text.
enum class Unit : uint8_t {
  kFile,       // the whole text
  kLine,       // a line, without its end
  kParagraph,  // lines up to a blank one, with their ends
};

// Takes the length of the next document, at least 1; returns whether to go on.
using LengthFunction = std::function<bool(uint32_t tokens)>;

// The estimate for text: `bytes` / `bytes_per_token`, rounded up.
uint32_t EstimateTokens(uint64_t bytes, double bytes_per_token);

// Calls `visit` with the estimated length of each document of `text`. Empty documents are passed
// over. DataLoss if reading fails.
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

#endif  // BATCHPLAN_CLIENT_CLI_DOCUMENTS_H_
