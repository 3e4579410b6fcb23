// Whole numbers as people write them: 16384, 16k, 1.5m.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_COUNT_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_COUNT_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace batchplan::cli {

// Behind a number, k, m and g, or K, M and G, stand for 1024, 1024^2 and 1024^3: a context of 16k
// is one of 16384 tokens. Such a number may have a decimal point if what it stands for is whole:
// 1.5k is 1536. Nothing if `text` is something else, or more than 2^64 - 1.
std::optional<uint64_t> ParseCount(absl::string_view text);

// `text` for an error: "16q" is not a whole number from 0 to 4294967295 ...
std::string NotACount(absl::string_view text, uint64_t most);

// For Option::transform of options that CLI11 parses: digits in place of what ParseCount takes.
CLI::Validator AsCount();

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_COUNT_H_
