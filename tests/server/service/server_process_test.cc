// batchplan-server for an operator: flags, output, signals, exit status.

#include "tests/server/service/server_process.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/server/service/requests.h"
#include "tests/server/telemetry/local_socket.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<v1::BatchPlanner::Stub> StubFor(int port) {
  return v1::BatchPlanner::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
}

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

TEST(ServerProcessTest, ServesThoughNobodyReadsWhatItLogs) {
  ServerProcess server({kAnyPort, kNoMetrics, "--drain_delay=0"});
  const std::string line = server.ReadUntil("event=listening");
  EXPECT_THAT(line, HasSubstr(" open_files="));
  const auto stub = StubFor(PortOf(line, "grpc"));
  // Several times as much as a pipe can hold.
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(PlanBatch(*stub, ValidRequest(4)).ok()) << i;
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
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

// The sanitizers of the build, separated by commas; empty if there are none.
constexpr std::string_view kSanitizers = BATCHPLAN_SANITIZERS;
// Clang's undefined-behaviour sanitizer tests an address by a pipe. Without descriptors for it, it
// reports every object as invalid.
constexpr bool kNeedsDescriptors = kSanitizers.find("undefined") != std::string_view::npos;

// A server that ran out of descriptors for a moment, so that gRPC accepts no connection any more.
class DeafServer {
 public:
  explicit DeafServer(const std::string& patience)
      : server_({kAnyPort, kAnyMetricsPort, "--drain_delay=0", "--shutdown_grace=0",
                 "--accept_patience=" + patience}) {
    const std::string line = server_.ReadUntil("event=listening");
    port_ = PortOf(line, "grpc");
    metrics_port_ = PortOf(line, "metrics");
    constexpr rlim_t kDescriptors = 100;
    const rlimit limit = {.rlim_cur = kDescriptors, .rlim_max = kDescriptors};
    EXPECT_EQ(prlimit(server_.pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
    std::vector<std::unique_ptr<LocalSocket>> connections;
    for (rlim_t i = 0; i < 2 * kDescriptors; ++i) {
      connections.push_back(std::make_unique<LocalSocket>(port_));
    }
    EXPECT_NE(server_.ReadUntil("Too many open files"), "");
  }

  ServerProcess& server() { return server_; }
  int port() const { return port_; }
  int metrics_port() const { return metrics_port_; }

 private:
  ServerProcess server_;
  int port_ = 0;
  int metrics_port_ = 0;
};

TEST(ServerProcessTest, AServerThatTakesNoConnectionsAnyMoreIsNotReady) {
  if (kNeedsDescriptors) GTEST_SKIP() << "the sanitizer needs descriptors of its own";
  DeafServer deaf("0");
  EXPECT_NE(deaf.server().ReadUntil("event=not_accepting"), "");
  EXPECT_THAT(HttpGet(deaf.metrics_port(), "/readyz"), HasSubstr(" 503 "));
  EXPECT_THAT(HttpGet(deaf.metrics_port(), "/metrics"), HasSubstr("batchplan_accepting 0\n"));
  EXPECT_THAT(HttpGet(deaf.metrics_port(), "/healthz"), HasSubstr(" 200 "));
  deaf.server().Signal(SIGTERM);
  EXPECT_EQ(deaf.server().Wait(), 0);
}

TEST(ServerProcessTest, AServerThatTakesNoConnectionsAnyMoreEndsItselfWithAnError) {
  if (kNeedsDescriptors) GTEST_SKIP() << "the sanitizer needs descriptors of its own";
  DeafServer deaf("6");
  EXPECT_NE(deaf.server().ReadUntil("event=deaf"), "");
  EXPECT_EQ(deaf.server().Wait(), 1);
  EXPECT_THAT(deaf.server().ReadAll(), HasSubstr("event=stopped"));
}

TEST(ServerProcessTest, AServerThatGetsTooLittleAddressSpaceSaysSoAndEnds) {
  if (!kSanitizers.empty()) GTEST_SKIP() << "a sanitizer needs terabytes of it";
  for (const int mebibytes : {100, 200, 300, 400}) {
    const std::string command = "ulimit -v " + std::to_string(mebibytes * 1024) +
                                "; exec " BATCHPLAN_SERVER " " + kAnyPort + " " + kNoMetrics +
                                " 2>&1";
    FILE* const run = popen(command.c_str(), "r");
    ASSERT_NE(run, nullptr);
    std::string output;
    for (int c = 0; (c = fgetc(run)) != EOF;) output += static_cast<char>(c);
    EXPECT_EQ(WEXITSTATUS(pclose(run)), 1) << mebibytes;
    EXPECT_THAT(output, HasSubstr("(ulimit -v) is " + std::to_string(mebibytes) +
                                  " MiB, but the server needs at least "));
  }
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
