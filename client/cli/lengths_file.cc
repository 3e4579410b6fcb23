#include "client/cli/lengths_file.h"

#include <cstdint>
#include <istream>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {
namespace {

// How much of a wrong line an error repeats: it may be a whole binary file.
constexpr size_t kQuotedBytes = 40;

}  // namespace

absl::Status ReadLengths(std::istream& stream, const std::string& name, v1::Manifest* manifest) {
  std::string line;
  for (int64_t number = 1; std::getline(stream, line); ++number) {
    absl::string_view text = line;
    text = absl::StripAsciiWhitespace(text.substr(0, text.find('#')));
    if (text.empty()) continue;
    uint32_t length = 0;
    if (!absl::SimpleAtoi(text, &length) || length == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", number, ": \"", absl::CEscape(text.substr(0, kQuotedBytes)),
                       "\" is not a length: a whole number of tokens, 1 to ",
                       std::numeric_limits<uint32_t>::max()));
    }
    manifest->add_lengths(length);
  }
  if (stream.bad()) return absl::DataLossError(absl::StrCat(name, ": can't be read"));
  return absl::OkStatus();
}

}  // namespace batchplan::cli
