#include "server/service/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/service/requests.h"
#include "tests/server/telemetry/local_socket.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHealthMethod = "/grpc.health.v1.Health/Check";
constexpr const char* kReflectionMethod =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// grpc.health.v1.HealthCheckResponse.status, or minus the code of the error.
int Health(const TestServer& server, const std::string& service) {
  std::string request;
  if (!service.empty()) {  // HealthCheckRequest.service
    request = std::string("\x0a") + static_cast<char>(service.size()) + service;
  }
  std::string response;
  const grpc::Status status = CallBytes(server.NewChannel(), kHealthMethod, request, &response);
  if (!status.ok()) return -status.error_code();
  return response.size() == 2 ? response[1] : 0;
}

constexpr int kServing = 1;
constexpr int kNotServing = 2;

TEST(ServerTest, HealthIsServingUntilADrainIsAnnounced) {
  TestServer server;
  for (const char* service : {"", "batchplan.v1.BatchPlanner"}) {
    EXPECT_EQ(Health(server, service), kServing) << service;
  }
  EXPECT_EQ(Health(server, "another.Service"), -grpc::StatusCode::NOT_FOUND);
  server.server().AnnounceDrain();
  for (const char* service : {"", "batchplan.v1.BatchPlanner"}) {
    EXPECT_EQ(Health(server, service), kNotServing) << service;
  }
}

// The reflection service's list of names, within its bytes; or the error's message.
std::string Reflection(const TestServer& server) {
  const std::string list_services("\x3a\x00", 2);  // ServerReflectionRequest.list_services = ""
  std::string response;
  const grpc::Status status =
      CallBytes(server.NewChannel(), kReflectionMethod, list_services, &response);
  return status.ok() ? response : "error " + std::to_string(status.error_code());
}

TEST(ServerTest, ReflectionListsTheServices) {
  TestServer server;
  const std::string services = Reflection(server);
  EXPECT_THAT(services, HasSubstr("batchplan.v1.BatchPlanner"));
  EXPECT_THAT(services, HasSubstr("grpc.health.v1.Health"));
}

TEST(ServerTest, ReflectionCanBeOffForOneServerOfTheProcess) {
  ServerOptions options = TestServer::Options();
  options.reflection = false;
  TestServer off(options);
  TestServer on;
  EXPECT_EQ(Reflection(off), "error " + std::to_string(grpc::StatusCode::UNIMPLEMENTED));
  EXPECT_THAT(Reflection(on), HasSubstr("batchplan.v1.BatchPlanner"));
}

TEST(ServerTest, TheHttpEndpointCountsPlansAndErrors) {
  ServerOptions options = TestServer::Options();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  auto stub = server.NewStub();
  v1::PlanBatchResponse response;
  ASSERT_TRUE(PlanBatch(*stub, ValidRequest(), &response).ok());
  ASSERT_TRUE(PlanBatch(*stub, ValidRequest(), &response).ok());
  ASSERT_FALSE(PlanBatch(*stub, v1::PlanBatchRequest()).ok());
  const std::string metrics = HttpGet(server.server().metrics_port(), "/metrics");
  const v1::PlanMetrics& pass = response.passes(0).metrics();
  for (const std::string& line :
       {std::string("batchplan_plans_total{preset=\"nemo_rl_packing\"} 2\n"),
        std::string("batchplan_sequences_per_plan_sum 512\n"),
        std::string(
            "batchplan_planning_seconds_count{preset=\"nemo_rl_packing\",size=\"le_256\"} 2\n"),
        std::string("batchplan_requests_total{code=\"OK\",method=\"PlanBatch\"} 2\n"),
        std::string("batchplan_requests_total{code=\"INVALID_ARGUMENT\",method=\"PlanBatch\"} 1\n"),
        std::string("batchplan_requests_in_flight{method=\"PlanBatch\"} 0\n"),
        std::string("batchplan_bin_utilization_count 2\n"),
        "batchplan_true_tokens_total " + std::to_string(2 * pass.true_tokens()) + "\n",
        "batchplan_microbatches_total " + std::to_string(2 * pass.microbatches()) + "\n"}) {
    EXPECT_THAT(metrics, HasSubstr(line));
  }
}

TEST(ServerTest, ReadinessEndsWithTheDrainAndLivenessWithTheServer) {
  ServerOptions options = TestServer::Options();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  const int port = server.server().metrics_port();
  EXPECT_THAT(HttpGet(port, "/readyz"), HasSubstr("HTTP/1.1 200 "));
  server.server().AnnounceDrain();
  EXPECT_THAT(HttpGet(port, "/readyz"), HasSubstr("HTTP/1.1 503 "));
  EXPECT_THAT(HttpGet(port, "/healthz"), HasSubstr("HTTP/1.1 200 "));
  EXPECT_TRUE(PlanBatch(*server.NewStub(), ValidRequest()).ok());
}

TEST(ServerTest, WithoutAMetricsAddressThereIsNoEndpoint) {
  TestServer server;
  EXPECT_EQ(server.server().metrics_port(), 0);
}

TEST(ServerTest, ATakenPortIsAnErrorThatNamesTheFlag) {
  TestServer first;
  ServerOptions options = TestServer::Options();
  options.listen = first.target();
  const absl::Status status = Server::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(status.message()),
            "--listen=" + first.target() + ": address already in use or not valid");
  EXPECT_TRUE(PlanBatch(*first.NewStub(), ValidRequest()).ok());
}

TEST(ServerTest, ATakenMetricsPortIsAnErrorThatNamesTheFlag) {
  TestServer first;
  ServerOptions options = TestServer::Options();
  options.metrics_listen = first.target();
  const absl::Status status = Server::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--metrics_listen=" + first.target() + ": "));
}

TEST(ServerTest, OptionsThatAreNotValidDoNotStart) {
  ServerOptions options = TestServer::Options();
  options.max_queued_plans = -1;
  EXPECT_EQ(Server::Start(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ServerTest, GarbageOnThePortHurtsNobodyElse) {
  TestServer server;
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(100'000, '\xa5'),
        std::string(1, '\0'), preface + std::string(1000, '\xff'),
        preface + std::string(1000, '\0'), preface.substr(0, 10), std::string()}) {
    LocalSocket socket(server.server().port());
    ASSERT_TRUE(socket.connected());
    socket.SendAll(garbage);
    socket.ReceiveAll();  // returns once the server has closed the connection
    EXPECT_TRUE(PlanBatch(*server.NewStub(), ValidRequest()).ok());
  }
}

TEST(ServerTest, AnIdleConnectionDoesNotHoldUpTheShutdown) {
  TestServer server;
  LocalSocket idle(server.server().port());
  ASSERT_TRUE(idle.connected());
  server.server().Shutdown();
  EXPECT_FALSE(LocalSocket(server.server().port()).connected());
}

TEST(ServerTest, AShutdownMayBeAskedForTwice) {
  TestServer server;
  std::jthread other([&server] { server.server().Drain(); });
  server.server().Shutdown();
}

}  // namespace
}  // namespace batchplan
