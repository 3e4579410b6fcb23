#include "client/cli/input.h"

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace batchplan::cli {

std::string DisplayName(const std::string& path) { return path == kStdin ? "stdin" : path; }

Input::Input(const std::string& path) : stream_(&file_) {
  if (path == kStdin) {
    stream_ = &std::cin;
    return;
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    status_ = absl::NotFoundError(absl::StrCat(path, ": is a directory"));
    return;
  }
  errno = 0;
  file_.open(path, std::ios::binary);
  if (!file_.is_open()) {
    const std::string reason = std::generic_category().message(errno);
    status_ = absl::NotFoundError(absl::StrCat(path, ": ", reason));
  }
}

}  // namespace batchplan::cli
