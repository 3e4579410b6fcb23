#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "batchplan/client.h"
#include "proto/batchplan/v1/call_rules.h"
#include "tests/client/cpp/fake_dns.h"
#include "tests/client/cpp/fake_server.h"
#include "tests/client/cpp/requests.h"
#include "tests/server/service/held_planner.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

// Options that retry within milliseconds.
RemoteOptions Hasty() {
  RemoteOptions options;
  options.initial_backoff = absl::Milliseconds(1);
  options.max_backoff = absl::Milliseconds(10);
  return options;
}

grpc::Status Unavailable() { return {grpc::StatusCode::UNAVAILABLE, "draining"}; }

TEST(RemoteConnection, GivesThePlanOfTheInProcessConnection) {
  const TestServer server;
  const Client remote(MakeRemoteConnection(server.target()));
  const Client in_process(MakeInProcessConnection());
  for (const int sequences : {16, 1000, 20'000}) {
    const v1::PlanBatchRequest request = RequestOf(sequences);
    const auto there = remote.PlanBatch(request);
    const auto here = in_process.PlanBatch(request);
    ASSERT_TRUE(there.ok()) << there.status();
    ASSERT_TRUE(here.ok()) << here.status();
    EXPECT_EQ(there->fingerprint(), here->fingerprint());
    EXPECT_EQ(there->passes(0).SerializeAsString(), here->passes(0).SerializeAsString());
  }
}

TEST(RemoteConnection, RefusalIsThatOfTheInProcessConnection) {
  const TestServer server;
  v1::PlanBatchRequest request = RequestOf(20);
  request.mutable_manifest()->set_lengths(7, 5000);
  const auto there = Client(MakeRemoteConnection(server.target())).PlanBatch(request);
  const auto here = Client(MakeInProcessConnection()).PlanBatch(request);
  EXPECT_TRUE(absl::IsInvalidArgument(there.status())) << there.status();
  EXPECT_EQ(there.status(), here.status());
}

TEST(RemoteConnection, UnavailableIsRetriedUntilAnswered) {
  FakeServer server([](int call, v1::PlanBatchResponse* response) {
    response->set_fingerprint("answered");
    return call < 4 ? Unavailable() : grpc::Status::OK;
  });
  const auto plan = Client(MakeRemoteConnection(server.target(), Hasty())).PlanBatch(RequestOf(20));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->fingerprint(), "answered");
  EXPECT_EQ(server.calls(), 4);
}

// gRPC gives up retries for requests beyond its retry buffer, 256 KiB unless it is raised.
TEST(RemoteConnection, LargeRequestIsRetriedToo) {
  FakeServer server(
      [](int call, v1::PlanBatchResponse*) { return call < 3 ? Unavailable() : grpc::Status::OK; });
  const v1::PlanBatchRequest request = RequestOf(1'000'000);
  ASSERT_GT(request.ByteSizeLong(), size_t{1} << 20);
  const auto plan = Client(MakeRemoteConnection(server.target(), Hasty())).PlanBatch(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(server.calls(), 3);
}

// This is how a stopping server ends calls.
TEST(RemoteConnection, CancelledByTheServerIsRetried) {
  FakeServer server([](int call, v1::PlanBatchResponse*) {
    return call < 3 ? grpc::Status(grpc::StatusCode::CANCELLED, "stopping") : grpc::Status::OK;
  });
  const auto plan = Client(MakeRemoteConnection(server.target(), Hasty())).PlanBatch(RequestOf(20));
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(server.calls(), 3);
}

// Another replica may be newer.
TEST(RemoteConnection, UnimplementedIsTriedAFewTimes) {
  FakeServer server([](int, v1::PlanBatchResponse*) {
    return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "field 99");
  });
  const auto plan = Client(MakeRemoteConnection(server.target(), Hasty())).PlanBatch(RequestOf(20));
  EXPECT_TRUE(absl::IsUnimplemented(plan.status())) << plan.status();
  EXPECT_EQ(server.calls(), kFewAttempts);
}

TEST(RemoteConnection, AServerThatComesWithinTheCallsTimeIsMet) {
  const std::string path = "unix:/tmp/batchplan_client_late_" + std::to_string(getpid());
  const Client client(MakeRemoteConnection(path));
  absl::StatusOr<v1::PlanBatchResponse> plan;
  std::jthread caller(
      [&] { plan = client.PlanBatch(RequestOf(20), {.timeout = absl::Minutes(2)}); });
  absl::SleepFor(absl::Seconds(4));
  FakeServer server([](int, v1::PlanBatchResponse*) { return grpc::Status::OK; }, path);
  caller.join();
  EXPECT_TRUE(plan.ok()) << plan.status();
}

TEST(RemoteConnection, ANameThatIsKnownLateIsFound) {
  FakeServer server([](int, v1::PlanBatchResponse*) { return grpc::Status::OK; });
  FakeDns dns;
  const std::string port = server.target().substr(server.target().rfind(':'));
  const Client client(
      MakeRemoteConnection(absl::StrCat("dns://127.0.0.1:", dns.port(), "/planner.test", port)));
  absl::StatusOr<v1::PlanBatchResponse> plan;
  std::jthread caller(
      [&] { plan = client.PlanBatch(RequestOf(20), {.timeout = absl::Minutes(2)}); });
  absl::SleepFor(absl::Seconds(5));
  EXPECT_GT(dns.questions(), 0);
  EXPECT_EQ(server.calls(), 0);
  dns.Know();
  caller.join();
  EXPECT_TRUE(plan.ok()) << plan.status();
}

TEST(RemoteConnection, JoinsTakeSlurmsRunUnlessTheyHaveTheirOwn) {
  FakeServer server([](int, v1::PlanBatchResponse*) { return grpc::Status::OK; });
  const Client client(MakeRemoteConnection(server.target()));
  const auto run_of = [&](const std::string& own, uint32_t world_size) {
    v1::JoinBatchRequest part;
    part.set_world_size(world_size);
    part.set_run_id(own);
    EXPECT_TRUE(client.JoinBatch(part).ok());
    return server.joined().run_id();
  };
  for (const char* name : {"TORCHELASTIC_RUN_ID", "SLURM_HET_JOB_ID", "SLURM_RESTART_COUNT"}) {
    unsetenv(name);
  }
  setenv("SLURM_JOB_ID", "4711", 1);
  setenv("SLURM_STEP_ID", "2", 1);
  setenv("SLURM_STEP_NUM_TASKS", "8", 1);
  EXPECT_EQ(run_of("", 8), "slurm-4711.2.r0");
  EXPECT_EQ(run_of("mine", 8), "mine");
  EXPECT_EQ(run_of("", 9), "");
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"}) {
    unsetenv(name);
  }
  EXPECT_EQ(run_of("", 8), "");
}

TEST(RemoteConnection, DefaultsAreThoseOfTheRules) {
  const RemoteOptions options;
  EXPECT_EQ(options.initial_backoff, kInitialBackoff);
  EXPECT_EQ(options.max_backoff, kMaxBackoff);
  EXPECT_EQ(options.attempt_timeout, kAttemptTimeout);
  EXPECT_EQ(options.keepalive_time, kKeepaliveTime);
  EXPECT_EQ(options.keepalive_timeout, kKeepaliveTimeout);
  EXPECT_EQ(options.connect_timeout, kConnectTimeout);
}

TEST(RemoteConnection, AttemptsEndAtTheLimit) {
  FakeServer server([](int, v1::PlanBatchResponse*) { return Unavailable(); });
  for (const int attempts : {1, 3}) {
    RemoteOptions options = Hasty();
    options.max_attempts = attempts;
    const int before = server.calls();
    const auto plan =
        Client(MakeRemoteConnection(server.target(), options)).PlanBatch(RequestOf(20));
    EXPECT_TRUE(absl::IsUnavailable(plan.status())) << plan.status();
    EXPECT_EQ(server.calls() - before, attempts);
  }
}

TEST(RemoteConnection, OtherErrorsAreNotRetried) {
  FakeServer server([](int, v1::PlanBatchResponse*) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no fit yet");
  });
  const auto plan = Client(MakeRemoteConnection(server.target(), Hasty())).PlanBatch(RequestOf(20));
  EXPECT_TRUE(absl::IsFailedPrecondition(plan.status())) << plan.status();
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("no fit yet"));
  EXPECT_EQ(server.calls(), 1);
}

// Whether `server` answered PlanBatch `count` times with this code.
bool HasErrors(const TestServer& server, const std::string& code, int count) {
  return server.Metric("batchplan_requests_total{code=\"" + code + "\",method=\"PlanBatch\"}") ==
         count;
}

TEST(RemoteConnection, AFullQueueIsTriedAgainWhenTheServerSays) {
  HeldPlanner planner(/*hold=*/1);
  ServerOptions options = TestServer::Options();
  options.planning_threads = 1;
  options.max_queued_plans = 0;
  TestServer server(options, planner.function());
  const Client client(MakeRemoteConnection(server.target(), Hasty()));
  std::jthread first([&client] { EXPECT_TRUE(client.PlanBatch(RequestOf(20)).ok()); });
  planner.WaitUntilHeld();
  std::jthread second([&client] { EXPECT_TRUE(client.PlanBatch(RequestOf(20)).ok()); });
  while (!HasErrors(server, "RESOURCE_EXHAUSTED", 1)) std::this_thread::yield();
  planner.Release();
}

// The status is the queue's, not DEADLINE_EXCEEDED when nothing is left to wait for.
TEST(RemoteConnection, AFullQueueIsToldWhenTimeWouldNotLast) {
  HeldPlanner planner(/*hold=*/1);
  ServerOptions options = TestServer::Options();
  options.planning_threads = 1;
  options.max_queued_plans = 0;
  TestServer server(options, planner.function());
  const Client client(MakeRemoteConnection(server.target()));
  std::jthread first([&client] { EXPECT_TRUE(client.PlanBatch(RequestOf(20)).ok()); });
  planner.WaitUntilHeld();
  const auto plan = client.PlanBatch(RequestOf(20), {.timeout = absl::Seconds(2)});
  EXPECT_TRUE(absl::IsResourceExhausted(plan.status())) << plan.status();
  planner.Release();
}

TEST(RemoteConnection, APlanTooLargeToSendIsNotMadeAgain) {
  ServerOptions options = TestServer::Options();
  options.max_message_bytes = 1024;
  TestServer server(options);
  v1::PlanBatchRequest request = RequestOf(0);
  for (int i = 0; i < 900; ++i) request.mutable_manifest()->add_lengths(1);
  const auto plan = Client(MakeRemoteConnection(server.target(), Hasty())).PlanBatch(request);
  EXPECT_TRUE(absl::IsResourceExhausted(plan.status())) << plan.status();
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("max_message_bytes=1024"));
  EXPECT_TRUE(HasErrors(server, "RESOURCE_EXHAUSTED", 1));
}

TEST(RemoteConnection, SilentServerIsDeadlineExceeded) {
  absl::Notification answer;
  FakeServer server([&](int, v1::PlanBatchResponse*) {
    answer.WaitForNotification();
    return grpc::Status::OK;
  });
  const Client client(MakeRemoteConnection(server.target()));
  const auto plan = client.PlanBatch(RequestOf(20), {.timeout = absl::Milliseconds(50)});
  answer.Notify();
  EXPECT_TRUE(absl::IsDeadlineExceeded(plan.status())) << plan.status();
}

TEST(RemoteConnection, AbsentServerIsUnavailableUntilItAppears) {
  const std::string path = "unix:/tmp/batchplan_client_test_" + std::to_string(getpid());
  const Client client(MakeRemoteConnection(path, Hasty()));
  const auto absent = client.PlanBatch(RequestOf(20), {.timeout = absl::Milliseconds(100)});
  EXPECT_TRUE(absl::IsUnavailable(absent.status())) << absent.status();

  FakeServer server([](int, v1::PlanBatchResponse*) { return grpc::Status::OK; }, path);
  const auto present = client.PlanBatch(RequestOf(20));
  EXPECT_TRUE(present.ok()) << present.status();
}

TEST(RemoteConnection, MessageBeyondTheLimitIsResourceExhausted) {
  FakeServer server([](int, v1::PlanBatchResponse*) { return grpc::Status::OK; });
  RemoteOptions options;
  options.max_message_bytes = 1000;
  const auto plan =
      Client(MakeRemoteConnection(server.target(), options)).PlanBatch(RequestOf(2000));
  EXPECT_TRUE(absl::IsResourceExhausted(plan.status())) << plan.status();
  EXPECT_EQ(server.calls(), 0);
}

TEST(RemoteConnection, AnAnswerBeyondTheLimitIsNotAskedForAgain) {
  FakeServer server([](int, v1::PlanBatchResponse* response) {
    response->set_fingerprint(std::string(2000, 'f'));
    return grpc::Status::OK;
  });
  RemoteOptions options;
  options.max_message_bytes = 1000;
  const auto plan = Client(MakeRemoteConnection(server.target(), options)).PlanBatch(RequestOf(20));
  EXPECT_TRUE(absl::IsResourceExhausted(plan.status())) << plan.status();
  EXPECT_EQ(server.calls(), 1);
}

TEST(RemoteConnection, InvalidOptionsShowInEveryCall) {
  const auto status = [](RemoteOptions options) {
    return Client(MakeRemoteConnection("localhost:1", options))
        .PlanBatch(RequestOf(20))
        .status()
        .ToString();
  };
  EXPECT_THAT(status({.max_message_bytes = 0}), HasSubstr("max_message_bytes is 0"));
  EXPECT_THAT(status({.default_timeout = absl::ZeroDuration()}), HasSubstr("default_timeout is 0"));
  EXPECT_THAT(status({.token_file = "token"}), HasSubstr("token_file is token, must be empty"));
  RemoteOptions tls;
  tls.tls.emplace();
  EXPECT_THAT(status(tls), HasSubstr("tls.root_certificates is empty"));
  tls.tls->root_certificates = "missing.pem";
  EXPECT_THAT(status(tls), HasSubstr("tls.root_certificates is missing.pem, which can't be read"));
  tls.tls->key = "key.pem";
  EXPECT_THAT(status(tls), HasSubstr("must be two files or neither"));
  EXPECT_THAT(status({.max_attempts = 0}), HasSubstr("max_attempts is 0, must be at least 1"));
  EXPECT_THAT(status({.attempt_timeout = absl::ZeroDuration()}), HasSubstr("attempt_timeout is 0"));
  EXPECT_THAT(status({.keepalive_time = absl::ZeroDuration()}), HasSubstr("keepalive_time is 0"));
  EXPECT_THAT(status({.keepalive_timeout = -absl::Seconds(1)}),
              HasSubstr("keepalive_timeout is -1s, must be at least 1ms"));
  EXPECT_THAT(status({.connect_timeout = absl::Milliseconds(20)}),
              HasSubstr("connect_timeout is 20ms, must be at least 100ms"));
  EXPECT_THAT(status({.initial_backoff = absl::Seconds(3)}), HasSubstr("initial_backoff is 3s"));
}

}  // namespace
}  // namespace batchplan
