// A program in Python that runs beside this one, for what Python's libraries read and C++'s do not.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_PYTHON_PROCESS_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_PYTHON_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace batchplan::cli {

// python_program.py in a process, by the interpreter that BATCHPLAN_PYTHON names, or python3. Not
// thread-safe.
class PythonProcess {
 public:
  // InvalidArgument if the interpreter can't be run.
  static absl::StatusOr<std::unique_ptr<PythonProcess>> Start(
      const std::vector<std::string>& arguments);

  // Ends the process if it still runs.
  ~PythonProcess();
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  // All of `bytes` to its stdin. Why the process ended, if it did.
  absl::Status Write(absl::string_view bytes);

  // What it wrote to its stdout: at most `size` bytes, as soon as there are any; 0 after the last,
  // when it has ended well. InvalidArgument with what it said of why it ended, if it failed.
  absl::StatusOr<size_t> Read(char* to, size_t size);

  // All `size` bytes. Also InvalidArgument if the process ends before.
  absl::Status ReadAll(char* to, size_t size);

 private:
  PythonProcess(pid_t pid, int socket, int said) : pid_(pid), socket_(socket), said_(said) {}

  // Waits for the end.
  absl::Status Outcome();

  pid_t pid_;
  // Both its stdin and its stdout.
  int socket_;
  // Its stderr, in memory.
  int said_;
  bool has_ended_ = false;
  absl::Status outcome_;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_PYTHON_PROCESS_H_
