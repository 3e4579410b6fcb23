#include "client/cli/input/count.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {
namespace {

constexpr uint64_t kMostOfAll = std::numeric_limits<uint64_t>::max();
constexpr absl::string_view kSuffixes = "kmg";

}  // namespace

std::optional<uint64_t> ParseCount(absl::string_view text) {
  uint64_t count = 0;
  if (absl::SimpleAtoi(text, &count)) return count;
  if (text.empty()) return std::nullopt;
  const size_t suffix = kSuffixes.find(absl::ascii_tolower(text.back()));
  if (suffix == absl::string_view::npos) return std::nullopt;
  const uint64_t unit = uint64_t{1} << (10 * (suffix + 1));
  text.remove_suffix(1);
  // The parsers below would accept signs, exponents, infinities and spaces.
  if (text.find_first_not_of("0123456789.") != absl::string_view::npos) return std::nullopt;
  if (absl::SimpleAtoi(text, &count)) {
    if (count > kMostOfAll / unit) return std::nullopt;
    return count * unit;
  }
  double number = 0;
  if (!absl::SimpleAtod(text, &number)) return std::nullopt;
  number *= static_cast<double>(unit);
  // A double holds every whole number up to this.
  if (number != std::floor(number) || number > static_cast<double>(uint64_t{1} << 53)) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(number);
}

std::string NotACount(absl::string_view text, uint64_t most) {
  return absl::StrCat("\"", text, "\" is not a whole number from 0 to ", most,
                      ", in which 16k stands for 16384");
}

CLI::Validator AsCount() {
  return {[](std::string& text) -> std::string {
            const std::optional<uint64_t> count = ParseCount(text);
            if (!count.has_value()) return NotACount(text, kMostOfAll);
            text = absl::StrCat(*count);
            return "";
          },
          ""};
}

}  // namespace batchplan::cli
