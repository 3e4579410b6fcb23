// batchplan-server as an operator meets it: flags, output, signals, exit status.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "tests/server/service/requests.h"
#include "tests/server/telemetry/local_socket.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

// A running batchplan-server whose standard output and error come to the test.
class ServerProcess {
 public:
  explicit ServerProcess(std::vector<std::string> flags) {
    flags.insert(flags.begin(), BATCHPLAN_SERVER);
    std::vector<char*> arguments;
    arguments.reserve(flags.size() + 1);
    for (std::string& flag : flags) arguments.push_back(flag.data());
    arguments.push_back(nullptr);

    std::array<int, 2> output;
    if (pipe2(output.data(), O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDERR_FILENO);
    if (posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) {
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

  void Signal(int signal) const { kill(pid_, signal); }

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
};

// The port in a "listening" line's `key`=HOST:PORT.
int PortOf(const std::string& line, const std::string& key) {
  const size_t value = line.find(" " + key + "=");
  const size_t colon = line.find(':', value);
  return value == std::string::npos || colon == std::string::npos
             ? 0
             : std::stoi(line.substr(colon + 1));
}

std::unique_ptr<v1::BatchPlanner::Stub> StubFor(int port) {
  return v1::BatchPlanner::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
}

const std::string kAnyPort = "--listen=127.0.0.1:0";
const std::string kAnyMetricsPort = "--metrics_listen=127.0.0.1:0";
const std::string kNoMetrics = "--metrics_listen=off";

TEST(ServerProcessTest, ServesAndLeavesCleanlyOnSigterm) {
  ServerProcess server({kAnyPort, kAnyMetricsPort, "--drain_delay=0", "--verify_plans"});
  const std::string line = server.ReadUntil("event=listening");
  const int port = PortOf(line, "grpc");
  const int metrics_port = PortOf(line, "metrics");
  ASSERT_GT(port, 0) << line;
  ASSERT_GT(metrics_port, 0) << line;
  const grpc::Status status = PlanBatch(*StubFor(port), ValidRequest());
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(HttpGet(metrics_port, "/metrics"),
              HasSubstr("batchplan_plans_total{preset=\"nemo_rl_packing\"} 1\n"));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  const std::string rest = server.ReadAll();
  EXPECT_THAT(rest, HasSubstr("event=PlanBatch"));
  EXPECT_THAT(rest, HasSubstr("event=draining signal=SIGTERM"));
  EXPECT_THAT(rest, HasSubstr("event=stopped"));
}

TEST(ServerProcessTest, LeavesCleanlyOnSigint) {
  ServerProcess server({kAnyPort, kNoMetrics, "--drain_delay=0"});
  EXPECT_THAT(server.ReadUntil("event=listening"), HasSubstr(" metrics=off "));
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(ServerProcessTest, StillServesWhileItDrainsAndASecondSignalEndsItAtOnce) {
  ServerProcess server({kAnyPort, kNoMetrics, "--drain_delay=3600"});
  const int port = PortOf(server.ReadUntil("event=listening"), "grpc");
  ASSERT_GT(port, 0);
  server.Signal(SIGTERM);
  ASSERT_NE(server.ReadUntil("event=draining"), "");
  EXPECT_TRUE(PlanBatch(*StubFor(port), ValidRequest()).ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), -SIGTERM);
}

TEST(ServerProcessTest, AWrongFlagIsAUsageError) {
  for (const std::string flag :
       {"--no_such_flag", "--planning_threads=many", "--planning_threads=-1", "--drain_delay=-1",
        "--listen=nowhere", "--metrics_listen=", "stray", "--reflection=perhaps"}) {
    ServerProcess server({kAnyPort, kNoMetrics, flag});
    EXPECT_THAT(server.ReadAll(), HasSubstr(flag.substr(0, flag.find('=')))) << flag;
    EXPECT_EQ(server.Wait(), 2) << flag;
  }
}

TEST(ServerProcessTest, ATakenPortIsAStartFailureThatNamesIt) {
  ServerProcess first({kAnyPort, kNoMetrics});
  const int port = PortOf(first.ReadUntil("event=listening"), "grpc");
  ASSERT_GT(port, 0);
  const std::string listen = "--listen=127.0.0.1:" + std::to_string(port);
  ServerProcess second({listen, kNoMetrics});
  EXPECT_THAT(second.ReadAll(), HasSubstr("batchplan-server: " + listen +
                                          ": address already in "
                                          "use or not valid\n"));
  EXPECT_EQ(second.Wait(), 1);
}

TEST(ServerProcessTest, ReflectionHasThreeSpellings) {
  for (const char* flag : {"--reflection=false", "--noreflection", "--reflection"}) {
    ServerProcess server({kAnyPort, kNoMetrics, "--drain_delay=0", flag});
    const int port = PortOf(server.ReadUntil("event=listening"), "grpc");
    ASSERT_GT(port, 0) << flag;
    std::string answer;
    const grpc::Status status =
        CallBytes(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                      grpc::InsecureChannelCredentials()),
                  "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                  std::string("\x3a\x00", 2), &answer);
    EXPECT_EQ(status.ok(), std::string(flag) == "--reflection") << flag;
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0);
  }
}

TEST(ServerProcessTest, HelpTeachesAndVersionTells) {
  ServerProcess help({"--help"});
  const std::string text = help.ReadAll();
  EXPECT_EQ(help.Wait(), 0);
  for (const char* flag :
       {"--listen", "--metrics_listen", "--max_message_bytes", "--planning_threads",
        "--max_queued_plans", "--max_queued_sequences", "--max_sequences", "--plan_cache_bytes",
        "--reflection", "--verify_plans", "--drain_delay", "--shutdown_grace", "--version",
        "SIGTERM", "Exit status"}) {
    EXPECT_THAT(text, HasSubstr(flag));
  }
  ServerProcess version({"--version"});
  EXPECT_THAT(version.ReadAll(), HasSubstr("batchplan-server "));
  EXPECT_EQ(version.Wait(), 0);
}

}  // namespace
}  // namespace batchplan
