// batchplan-server as a program of its own.
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

// Its standard output and error come to the test.
class ServerProcess {
 public:
  // Starts it with `flags`, and with `variables`, NAME=VALUE, besides the test's own environment.
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

  // Ends the process if the test has not.
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

  // Reads on until a line contains `text`, and returns the line; empty if the output ends first.
  std::string ReadUntil(const std::string& text) {
    std::array<char, 4096> line;
    while (output_ != nullptr && fgets(line.data(), line.size(), output_) != nullptr) {
      if (std::string(line.data()).find(text) != std::string::npos) return line.data();
    }
    return "";
  }

  // The rest of the output, to its end.
  std::string ReadAll() {
    std::string all;
    std::array<char, 4096> line;
    while (output_ != nullptr && fgets(line.data(), line.size(), output_) != nullptr) {
      all += line.data();
    }
    return all;
  }

  // Reads the output from here on without keeping it, so that a server that logs much never waits
  // for the test.
  void DropOutput() {
    reader_ = std::jthread([this] { ReadAll(); });
  }

  void Signal(int signal) const { kill(pid_, signal); }

  pid_t pid() const { return pid_; }

  // Waits for the end: the exit status, or minus the signal that ended the process.
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

// The port in a "listening" line's `key`=HOST:PORT.
inline int PortOf(const std::string& line, const std::string& key) {
  const size_t value = line.find(" " + key + "=");
  const size_t colon = line.find(':', value);
  return value == std::string::npos || colon == std::string::npos
             ? 0
             : std::stoi(line.substr(colon + 1));
}

// For servers that must not meet each other.
inline const std::string kAnyPort = "--listen=127.0.0.1:0";
inline const std::string kAnyMetricsPort = "--metrics_listen=127.0.0.1:0";
inline const std::string kNoMetrics = "--metrics_listen=off";

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SERVER_SERVICE_SERVER_PROCESS_H_
