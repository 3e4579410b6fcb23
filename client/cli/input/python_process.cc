#include "client/cli/input/python_process.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/python_program.h"

namespace batchplan::cli {
namespace {

// An error repeats this much of the end of the process's standard error.
constexpr off_t kSaidBytes = 4 << 10;

std::string Interpreter() {
  const char* named = std::getenv("BATCHPLAN_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

absl::Status CannotStart(int error) {
  return absl::InvalidArgumentError(absl::StrCat(
      "can't run ", Interpreter(), ", which reads Parquet files and tokenizers: ",
      std::generic_category().message(error), "; BATCHPLAN_PYTHON names another interpreter"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PythonProcess>> PythonProcess::Start(
    const std::vector<std::string>& arguments) {
  // A socket and not a pipe: writing to a pipe without a reader would kill this process.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return CannotStart(errno);
  const int said = memfd_create("stderr", MFD_CLOEXEC);
  if (said < 0) {
    const absl::Status status = CannotStart(errno);
    close(ends[0]);
    close(ends[1]);
    return status;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, said, 2);

  // File names are UTF-8 in any locale.
  std::vector<std::string> words = {Interpreter(), "-X", "utf8", "-c",
                                    std::string(PythonProgram())};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    close(said);
    return CannotStart(error);
  }
  return std::unique_ptr<PythonProcess>(new PythonProcess(pid, ends[0], said));
}

PythonProcess::~PythonProcess() {
  close(socket_);
  close(said_);
  if (has_ended_) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::Status PythonProcess::Outcome() {
  if (has_ended_) return outcome_;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  has_ended_ = true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return outcome_;
  std::string text(kSaidBytes, '\0');
  const off_t begin = std::max<off_t>(0, lseek(said_, 0, SEEK_END) - kSaidBytes);
  text.resize(
      static_cast<size_t>(std::max<ssize_t>(0, pread(said_, text.data(), text.size(), begin))));
  absl::StripAsciiWhitespace(&text);
  if (text.empty()) {
    text = absl::StrCat(Interpreter(), " ended", WIFSIGNALED(status) ? " by signal " : " with ",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
  outcome_ = absl::InvalidArgumentError(text);
  return outcome_;
}

absl::Status PythonProcess::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const absl::Status outcome = Outcome();
      return outcome.ok() ? absl::InternalError("python ended before its work") : outcome;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> PythonProcess::Read(char* to, size_t size) {
  ssize_t got = 0;
  do {
    got = recv(socket_, to, size, 0);
  } while (got < 0 && errno == EINTR);
  if (got > 0) return static_cast<size_t>(got);
  if (absl::Status outcome = Outcome(); !outcome.ok()) return outcome;
  return 0;
}

absl::Status PythonProcess::ReadAll(char* to, size_t size) {
  while (size > 0) {
    const absl::StatusOr<size_t> got = Read(to, size);
    if (!got.ok()) return got.status();
    if (*got == 0) return absl::InternalError("python ended before its work");
    to += *got;
    size -= *got;
  }
  return absl::OkStatus();
}

}  // namespace batchplan::cli
