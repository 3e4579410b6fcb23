// What a command reads: a file or stdin, and the files below a path.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_INPUT_FILES_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_INPUT_FILES_H_

#include <cstdint>
#include <fstream>
#include <functional>
#include <istream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

// Takes the next file; `named` if it is the path itself rather than found below it. Returns whether
// to go on.
using FileFunction = std::function<absl::StatusOr<bool>(const std::string& path, bool named)>;

// Visits files in an order that depends on their names alone.
struct FileWalk {
  // Directories that could not be listed.
  int64_t unreadable_directories = 0;

  // Calls `visit` with `path` if it is a file, or with every regular file below it if it is a
  // directory: sorted by name, depth first. Symbolic links below a directory are not followed.
  // Returns false if `visit` ended the walk. NotFound if `path` does not exist; visit's error.
  absl::StatusOr<bool> Run(const std::string& path, const FileFunction& visit);
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_INPUT_FILES_H_
