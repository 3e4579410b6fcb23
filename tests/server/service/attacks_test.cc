// Clients that are malicious, or broken with the same effect, while others are served.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/service/http2_frames.h"
#include "tests/server/service/requests.h"
#include "tests/server/service/server_process.h"
#include "tests/server/telemetry/local_socket.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::StartsWith;

// A client of a known job that plans without a pause. All its calls must succeed, and there must be
// some.
class Bystander {
 public:
  explicit Bystander(const std::string& target)
      : stub_(v1::BatchPlanner::NewStub(
            grpc::CreateChannel(target, grpc::InsecureChannelCredentials()))) {
    // A job is known when a call of it is done, slightly after the answer. After several calls it
    // surely is.
    for (int i = 0; i < 4; ++i) Call(/*must_be_made=*/true);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) Call();
    });
  }

  ~Bystander() {
    Call(/*must_be_made=*/true);
    thread_.request_stop();
    thread_.join();
    EXPECT_EQ(failed_, 0);
  }

  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;

 private:
  void Call(bool must_be_made = false) {
    const grpc::Status status = PlanBatch(*stub_, ValidRequest(64));
    if (status.ok()) return;
    ++failed_;
    EXPECT_FALSE(must_be_made) << status.error_message();
  }

  const std::unique_ptr<v1::BatchPlanner::Stub> stub_;
  std::atomic<int> failed_ = 0;
  std::jthread thread_;
};

TEST(AttacksTest, WhoNeverFinishesThePrefaceIsCutOff) {
  ServerOptions options = TestServer::Options();
  options.handshake_timeout = absl::Seconds(1);
  TestServer server(options);
  const Bystander bystander(server.target());
  std::vector<std::unique_ptr<LocalSocket>> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<LocalSocket>(server.server().port()));
    ASSERT_TRUE(slow.back()->Send(http2::Greeting().substr(0, static_cast<size_t>(i % 20))));
  }
  for (const auto& socket : slow) socket->ReceiveAll();  // returns once the server has closed it
}

TEST(AttacksTest, ClientsOutliveTheAgeOfTheirConnections) {
  ServerOptions options = TestServer::Options();
  options.max_connection_age = absl::Seconds(1);
  options.max_connection_age_grace = absl::Seconds(1);
  TestServer server(options);
  const Bystander bystander(server.target());
  // For the ages of three connections, which the server closes.
  for (int i = 0; i < 3; ++i) {
    LocalSocket socket(server.server().port());
    ASSERT_TRUE(socket.Send(http2::Greeting()));
    socket.ReceiveAll();
  }
}

TEST(AttacksTest, CallsThatAreResetAtOnceCostOthersNothing) {
  TestServer server;
  const Bystander bystander(server.target());
  LocalSocket socket(server.server().port());
  ASSERT_TRUE(socket.Send(http2::Greeting()));
  for (uint32_t i = 0; i < 5000; ++i) {
    const uint32_t stream = 2 * i + 1;
    if (!socket.Send(http2::PlanBatchHeaders(stream) +
                     http2::Frame(http2::kResetStream, 0, stream, std::string(4, '\x08')))) {
      break;  // turned away, which is as good
    }
  }
  socket.SendAll("");
  socket.ReceiveAll();
}

TEST(AttacksTest, SlowReadersOfMetricsDoNotStopPlansOrProbes) {
  ServerOptions options = TestServer::Options();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  const Bystander bystander(server.target());
  std::vector<std::unique_ptr<LocalSocket>> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(std::make_unique<LocalSocket>(server.server().metrics_port()));
    ASSERT_TRUE(slow.back()->Send("GET /metrics HTTP/1.1\r\nX"));
  }
  EXPECT_THAT(HttpGet(server.server().metrics_port(), "/readyz"), StartsWith("HTTP/1.1 200 "));
}

// As many descriptors as this process may have, also for the programs that it starts.
size_t RaiseDescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 20'000);
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

TEST(AttacksTest, ThousandsOfIdleConnectionsDoNotKeepOthersOut) {
  // The server is a separate program, with as high a limit as this one.
  constexpr size_t kMost = 3000;
  const size_t connections = std::min<size_t>(kMost, RaiseDescriptorLimit() / 2);
  ServerProcess server(
      {kAnyPort, kNoMetrics, "--drain_delay=0", "--shutdown_grace=1", "--handshake_timeout=600"});
  const int port = PortOf(server.ReadUntil("event=listening"), "grpc");
  ASSERT_GT(port, 0);
  server.DropOutput();
  std::vector<std::unique_ptr<LocalSocket>> idle;
  idle.reserve(connections);
  {
    const Bystander bystander("127.0.0.1:" + std::to_string(port));
    for (size_t i = 0; i < connections; ++i) {
      idle.push_back(std::make_unique<LocalSocket>(port));
      ASSERT_TRUE(idle.back()->connected()) << i;
      // Half of them begin correctly.
      if (i % 2 == 0) {
        ASSERT_TRUE(idle.back()->Send(http2::Greeting())) << i;
      }
    }
  }
  { const Bystander newcomer("127.0.0.1:" + std::to_string(port)); }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

}  // namespace
}  // namespace batchplan
