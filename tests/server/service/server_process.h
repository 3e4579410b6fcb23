// batchplan-server as a separate program.
//
//   ServerProcess server({kAnyPort, kNoMetrics});
//   const int port = PortOf(server.ReadUntil("event=listening"), "grpc");

#ifndef BATCHPLAN_TESTS_SERVER_SERVICE_SERVER_PROCESS_H_
#define BATCHPLAN_TESTS_SERVER_SERVICE_SERVER_PROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace batchplan {

// The test reads its standard output and error.
class ServerProcess {
 public:
  // Starts it with `flags`, and with `variables` (NAME=VALUE) in addition to the test's
  // environment.
  explicit ServerProcess(std::vector<std::string> flags, std::vector<std::string> variables = {}) {
    flags.insert(flags.begin(), BATCHPLAN_SERVER);
    std::vector<char*> arguments;
    arguments.reserve(flags.size() + 1);
    for (std::string& flag : flags) arguments.push_back(flag.data());
    arguments.push_back(nullptr);
    std::vector<char*> environment;
    environment.reserve(variables.size());
    for (std::string& variable : variables) environment.push_back(variable.data());
    for (char** inherited = environ; *inherited != nullptr; ++inherited) {
      environment.push_back(*inherited);
    }
    environment.push_back(nullptr);

    std::array<int, 2> output;
    if (pipe2(output.data(), O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDERR_FILENO);
    if (posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environment.data()) !=
        0) {
      pid_ = 0;
    }
    posix_spawn_file_actions_destroy(&actions);
    close(output[1]);
    output_ = fdopen(output[0], "r");
  }

  // Ends the process if the test has not done so.
  ~ServerProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (reader_.joinable()) reader_.join();
    if (output_ != nullptr) fclose(output_);
  }

  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Reads until a line contains `text`, and returns the line; empty if the output ends before.
  std::string ReadUntil(const std::string& text) {
    std::array<char, 4096> line;
    while (output_ != nullptr && fgets(line.data(), line.size(), output_) != nullptr) {
      if (std::string(line.data()).find(text) != std::string::npos) return line.data();
    }
    return "";
  }

  // Reads the rest of the output.
  std::string ReadAll() {
    std::string all;
    std::array<char, 4096> line;
    while (output_ != nullptr && fgets(line.data(), line.size(), output_) != nullptr) {
      all += line.data();
    }
    return all;
  }

  // From here on, reads the output without keeping it, so that a server with a long log never waits
  // for the test.
  void DropOutput() {
    reader_ = std::jthread([this] { ReadAll(); });
  }

  void Signal(int signal) const { kill(pid_, signal); }

  pid_t pid() const { return pid_; }

  // Waits for the end of the process: its exit status, or minus the signal that ended it.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  FILE* output_ = nullptr;
  std::jthread reader_;
};

// The port in `key`=HOST:PORT of a "listening" line.
inline int PortOf(const std::string& line, const std::string& key) {
  const size_t value = line.find(" " + key + "=");
  const size_t colon = line.find(':', value);
  return value == std::string::npos || colon == std::string::npos
             ? 0
             : std::stoi(line.substr(colon + 1));
}

// For servers that must not share a port.
inline const std::string kAnyPort = "--listen=127.0.0.1:0";
inline const std::string kAnyMetricsPort = "--metrics_listen=127.0.0.1:0";
inline const std::string kNoMetrics = "--metrics_listen=off";

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SERVER_SERVICE_SERVER_PROCESS_H_
