// Runs the `batchplan` program as a shell would, and files for it to read.

#ifndef BATCHPLAN_TESTS_CLIENT_CLI_RUN_CLI_H_
#define BATCHPLAN_TESTS_CLIENT_CLI_RUN_CLI_H_

#include <filesystem>
#include <string>
#include <vector>

namespace batchplan {

// A directory of this test's own, removed with it. Not thread-safe.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  // The path of `name` within the directory.
  std::string Path(const std::string& name) const { return (path_ / name).string(); }

  // Writes a file, and the directories on the way to it; returns its path.
  std::string Write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path path_;
};

struct CliResult {
  // -1 if the program was ended by a signal.
  int exit_code = -1;
  // 0 if it was not.
  int signal = 0;
  std::string out;
  std::string err;
};

// Runs the program with `arguments` and `input` on stdin, and waits for its end.
CliResult RunCli(const std::vector<std::string>& arguments, const std::string& input = "");

// Runs it with a stdout that nobody reads.
CliResult RunCliIntoClosedPipe(const std::vector<std::string>& arguments);

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CLI_RUN_CLI_H_
