// The files below a path, in an order that depends on their names alone.

#ifndef BATCHPLAN_CLIENT_CLI_FILE_WALK_H_
#define BATCHPLAN_CLIENT_CLI_FILE_WALK_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace batchplan::cli {

// Takes the next file; `named` if it is the path itself rather than found below it. Returns whether
// to go on.
using FileFunction = std::function<absl::StatusOr<bool>(const std::string& path, bool named)>;

struct FileWalk {
  // Directories that could not be listed.
  int64_t unreadable_directories = 0;

  // Calls `visit` with `path` if it is a file, or with every regular file below it if it is a
  // directory: sorted by name, depth first. Symbolic links below a directory are not followed.
  // Returns false if `visit` ended the walk. NotFound if `path` does not exist; visit's error.
  absl::StatusOr<bool> Run(const std::string& path, const FileFunction& visit);
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_FILE_WALK_H_
