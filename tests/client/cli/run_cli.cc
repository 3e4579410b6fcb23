#include "tests/client/cli/run_cli.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/scratch_directory.h"

namespace batchplan {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Runs the program with its streams in files of `directory`, which unlike pipes never fill up. If
// `out` is not -1, stdout goes there.
CliResult Run(const ScratchDirectory& directory, std::vector<std::string> arguments, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, 0, directory.Path("in").c_str(), O_RDONLY, 0);
  if (out >= 0) {
    posix_spawn_file_actions_adddup2(&actions, out, 1);
  } else {
    posix_spawn_file_actions_addopen(&actions, 1, directory.Path("out").c_str(), kCreate, 0600);
  }
  posix_spawn_file_actions_addopen(&actions, 2, directory.Path("err").c_str(), kCreate, 0600);

  arguments.insert(arguments.begin(), BATCHPLAN_CLI);
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  // The test runner may ignore SIGPIPE; a shell does not.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);

  CliResult result;
  pid_t pid = 0;
  if (posix_spawn(&pid, BATCHPLAN_CLI, &actions, &attributes, argv.data(), environ) != 0)
    std::abort();
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) std::abort();
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.out = ReadFile(directory.Path("out"));
  result.err = ReadFile(directory.Path("err"));
  return result;
}

}  // namespace

CliResult RunCli(const std::vector<std::string>& arguments, const std::string& input) {
  const ScratchDirectory directory;
  directory.Write("in", input);
  return Run(directory, arguments, -1);
}

CliResult RunCliIntoClosedPipe(const std::vector<std::string>& arguments) {
  const ScratchDirectory directory;
  directory.Write("in", "");
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) std::abort();
  close(pipe_ends[0]);
  CliResult result = Run(directory, arguments, pipe_ends[1]);
  close(pipe_ends[1]);
  return result;
}

}  // namespace batchplan
