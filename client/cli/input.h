// Where a command reads from: a file, or "-" for stdin.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_H_

#include <fstream>
#include <istream>
#include <string>

#include "absl/status/status.h"

namespace batchplan::cli {

inline constexpr char kStdin[] = "-";

// What messages call `path`: itself, or "stdin".
std::string DisplayName(const std::string& path);

// An input by its name. Not thread-safe; use one for stdin at most.
class Input {
 public:
  // NotFound if `path` can't be opened for reading; see status().
  explicit Input(const std::string& path);

  const absl::Status& status() const { return status_; }
  std::istream& stream() { return *stream_; }

 private:
  std::ifstream file_;
  std::istream* stream_;
  absl::Status status_;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_H_
