#include "client/cli/input/input_files.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace batchplan::cli {
namespace {

namespace fs = std::filesystem;

// Entries of `directory` by name; empty, with `error` set, if it can't be listed.
std::vector<fs::path> SortedEntries(const fs::path& directory, std::error_code* error) {
  std::vector<fs::path> entries;
  fs::directory_iterator entry(directory, *error);
  while (!*error && entry != fs::directory_iterator()) {
    entries.push_back(entry->path());
    entry.increment(*error);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

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

absl::StatusOr<bool> FileWalk::Run(const std::string& path, const FileFunction& visit) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return absl::NotFoundError(absl::StrCat(
        path, ": ", error ? error.message() : std::string("No such file or directory")));
  }
  if (!fs::is_directory(status)) return visit(path, /*named=*/true);

  // Paths still to visit, the next one last.
  std::vector<fs::path> pending = {path};
  while (!pending.empty()) {
    const fs::path next = pending.back();
    pending.pop_back();
    const bool is_root = next == fs::path(path);
    const fs::file_status kind = is_root ? status : fs::symlink_status(next, error);
    if (fs::is_directory(kind)) {
      const std::vector<fs::path> entries = SortedEntries(next, &error);
      if (error) ++unreadable_directories;
      pending.insert(pending.end(), entries.rbegin(), entries.rend());
    } else if (fs::is_regular_file(kind)) {
      absl::StatusOr<bool> more = visit(next.string(), /*named=*/false);
      if (!more.ok() || !*more) return more;
    }
  }
  return true;
}

}  // namespace batchplan::cli
