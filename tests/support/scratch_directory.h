// Files of one test, removed with the object.
//
//   const ScratchDirectory directory;
//   const std::string path = directory.Write("tokens.txt", "...");

#ifndef BATCHPLAN_TESTS_SUPPORT_SCRATCH_DIRECTORY_H_
#define BATCHPLAN_TESTS_SUPPORT_SCRATCH_DIRECTORY_H_

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace batchplan {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "batchplan_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  std::string Path(std::string_view name = "") const { return (path_ / name).string(); }

  // Writes a file that only its owner may read, and missing directories; returns its path. Readers
  // see the old content or the new one, never a part.
  std::string Write(std::string_view name, std::string_view content) const {
    const std::string path = Path(name);
    const std::string fresh = path + ".new";
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(fresh, std::ios::binary) << content;
    chmod(fresh.c_str(), 0600);
    std::filesystem::rename(fresh, path);
    return path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SUPPORT_SCRATCH_DIRECTORY_H_
