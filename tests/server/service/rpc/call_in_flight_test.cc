// What can happen to a call while it waits or is planned; the test holds the planner.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "server/planner/make_plan.h"
#include "tests/server/service/held_planner.h"
#include "tests/server/service/requests.h"
#include "tests/server/telemetry/local_socket.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// One thread for each job: the server has two, the last of which is reserved for others.
ServerOptions OneThread(int64_t max_queued_plans) {
  ServerOptions options = TestServer::Options();
  options.planning_threads = 1;
  options.max_queued_plans = max_queued_plans;
  return options;
}

// Makes concurrent calls, each from its own thread.
class Calls {
 public:
  // Starts a call with this deadline.
  void Start(const TestServer& server,
             std::chrono::system_clock::time_point deadline = GenerousDeadline(),
             const std::string& job = "test") {
    threads_.emplace_back([this, stub = server.NewStub(), deadline, job] {
      grpc::ClientContext context;
      context.set_deadline(deadline);
      v1::PlanBatchRequest request = ValidRequest();
      request.set_job_id(job);
      v1::PlanBatchResponse response;
      grpc::Status status = stub->PlanBatch(&context, request, &response);
      std::lock_guard lock(mutex_);
      answers_.push_back(std::move(status));
      answered_.notify_all();
    });
  }

  // The next answer, in order of arrival.
  grpc::Status Next() {
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [this] { return answers_.size() > taken_; });
    return answers_[taken_++];
  }

 private:
  std::mutex mutex_;
  std::condition_variable answered_;
  std::vector<grpc::Status> answers_;
  size_t taken_ = 0;
  std::vector<std::jthread> threads_;
};

TEST(CallInFlightTest, AFullQueueRefusesWithResourceExhausted) {
  HeldPlanner planner(/*hold=*/1);
  TestServer server(OneThread(/*max_queued_plans=*/1), planner.function());
  Calls calls;
  calls.Start(server);
  planner.WaitUntilHeld();
  // Whichever comes first waits; the other one is refused at once.
  calls.Start(server);
  calls.Start(server);
  const grpc::Status refused = calls.Next();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("max_queued_plans=1"));
  EXPECT_THAT(server.MetricsText(), HasSubstr("batchplan_queue_depth 1\n"));
  planner.Release();
  EXPECT_TRUE(calls.Next().ok());
  EXPECT_TRUE(calls.Next().ok());
  EXPECT_THAT(server.MetricsText(), HasSubstr("batchplan_queue_depth 0\n"));
  EXPECT_THAT(
      server.MetricsText(),
      HasSubstr("batchplan_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"PlanBatch\"} 1\n"));
}

TEST(CallInFlightTest, ACancelledCallStopsItsPlanning) {
  HeldPlanner planner(/*hold=*/1);
  TestServer server(OneThread(1), planner.function());
  auto stub = server.NewStub();
  grpc::ClientContext context;
  context.set_deadline(GenerousDeadline());
  grpc::Status status;
  std::jthread call([&] {
    v1::PlanBatchResponse response;
    status = stub->PlanBatch(&context, ValidRequest(), &response);
  });
  planner.WaitUntilHeld();
  context.TryCancel();
  call.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  // The only thread is free again, although nothing was released.
  EXPECT_TRUE(PlanBatch(*stub, ValidRequest()).ok());
  EXPECT_EQ(planner.stopped(), 1);
  server.server().Shutdown();
  EXPECT_THAT(server.MetricsText(),
              HasSubstr("batchplan_requests_total{code=\"CANCELLED\",method=\"PlanBatch\"} 1\n"));
}

TEST(CallInFlightTest, ADeadlineStopsThePlanning) {
  HeldPlanner planner(/*hold=*/1);
  TestServer server(OneThread(1), planner.function());
  Calls calls;
  // If the deadline passes before the call is held, the call is not planned at all.
  calls.Start(server, std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  EXPECT_EQ(calls.Next().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  // Ends although nothing was released.
  server.server().Shutdown();
  EXPECT_EQ(planner.stopped(), planner.calls());
}

TEST(CallInFlightTest, ADeadlineThatPassesInTheQueueIsNotPlanned) {
  HeldPlanner planner(/*hold=*/1);
  TestServer server(OneThread(10), planner.function());
  Calls calls;
  calls.Start(server);
  planner.WaitUntilHeld();
  calls.Start(server, std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  EXPECT_EQ(calls.Next().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  planner.Release();
  EXPECT_TRUE(calls.Next().ok());
  EXPECT_TRUE(PlanBatch(*server.NewStub(), ValidRequest()).ok());
  EXPECT_EQ(planner.calls(), 2);
}

// Returns once the server's metrics have `line`.
void WaitForMetric(TestServer& server, const std::string& line) {
  while (server.MetricsText().find(line) == std::string::npos) std::this_thread::yield();
}

TEST(CallInFlightTest, ACallThatIsGivenUpInTheQueueLeavesItsPlaceAtOnce) {
  HeldPlanner planner(/*hold=*/1);
  TestServer server(OneThread(/*max_queued_plans=*/1), planner.function());
  Calls calls;
  calls.Start(server);
  planner.WaitUntilHeld();
  calls.Start(server, std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  EXPECT_EQ(calls.Next().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  // The only thread is still held.
  WaitForMetric(server, "batchplan_queue_depth 0\n");
  calls.Start(server);
  WaitForMetric(server, "batchplan_queue_depth 1\n");
  planner.Release();
  EXPECT_TRUE(calls.Next().ok());
  EXPECT_TRUE(calls.Next().ok());
  EXPECT_EQ(planner.calls(), 2);
}

TEST(CallInFlightTest, AGreedyJobLeavesAThreadForOthers) {
  HeldPlanner planner(/*hold=*/1);
  // Room for one more: a thread remains busy for a moment after its call is answered.
  TestServer server(OneThread(/*max_queued_plans=*/4), planner.function());
  Calls greedy;
  greedy.Start(server, GenerousDeadline(), "greedy");
  planner.WaitUntilHeld();
  for (int i = 0; i < 3; ++i) greedy.Start(server, GenerousDeadline(), "greedy");
  WaitForMetric(server, "batchplan_queue_depth 3\n");
  // These are answered while the planner is still held.
  Calls small;
  for (int i = 0; i < 3; ++i) {
    small.Start(server, GenerousDeadline(), "small-" + std::to_string(i));
    EXPECT_TRUE(small.Next().ok());
  }
  planner.Release();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(greedy.Next().ok());
}

TEST(CallInFlightTest, ARefusalTellsTheClientWhenToTryAgain) {
  HeldPlanner planner(/*hold=*/1);
  TestServer server(OneThread(/*max_queued_plans=*/0), planner.function());
  Calls calls;
  calls.Start(server);
  planner.WaitUntilHeld();
  grpc::ClientContext context;
  v1::PlanBatchResponse response;
  EXPECT_EQ(server.NewStub()->PlanBatch(&context, ValidRequest(), &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto pushback = metadata.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, metadata.end());
  EXPECT_EQ(pushback->second, "50");
  planner.Release();
  EXPECT_TRUE(calls.Next().ok());
}

TEST(CallInFlightTest, AnExceptionInThePlannerIsAnAnswer) {
  std::atomic<int> calls = 0;
  TestServer server(OneThread(1),
                    [&calls](const Manifest& manifest, const PlanOptions& options,
                             const std::stop_token& stop) -> absl::StatusOr<Plan> {
                      switch (calls++) {
                        case 0:
                          throw std::bad_alloc();
                        case 1:
                          throw std::runtime_error("broken");
                        default:
                          return MakePlan(manifest, options, stop);
                      }
                    });
  auto stub = server.NewStub();
  EXPECT_EQ(PlanBatch(*stub, ValidRequest()).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(PlanBatch(*stub, ValidRequest()).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_TRUE(PlanBatch(*stub, ValidRequest()).ok());
}

TEST(CallInFlightTest, ADrainLetsCallsInFlightEnd) {
  HeldPlanner planner(/*hold=*/1);
  ServerOptions options = TestServer::Options();
  options.planning_threads = 3;
  TestServer server(options, planner.function());
  const int port = server.server().port();
  Calls calls;
  calls.Start(server);
  planner.WaitUntilHeld();

  server.server().AnnounceDrain();
  EXPECT_TRUE(PlanBatch(*server.NewStub(), ValidRequest()).ok()) << "the listeners are still open";

  std::jthread shutdown([&server] { server.server().Shutdown(); });
  while (LocalSocket(port).connected()) std::this_thread::yield();
  planner.Release();
  const grpc::Status status = calls.Next();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(CallInFlightTest, WhatOutlivesTheGraceIsStoppedAndToldThatTheServerGoes) {
  HeldPlanner planner(/*hold=*/1);
  ServerOptions options = OneThread(10);
  options.shutdown_grace = absl::ZeroDuration();
  TestServer server(options, planner.function());
  Calls calls;
  calls.Start(server);
  planner.WaitUntilHeld();
  calls.Start(server);
  WaitForMetric(server, "batchplan_queue_depth 1\n");
  server.server().Shutdown();
  const std::vector<grpc::Status> ends = {calls.Next(), calls.Next()};
  for (const grpc::Status& status : ends) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    // The connection may end before its last message arrives.
    EXPECT_THAT(status.error_message(),
                AnyOf(HasSubstr("the server is shutting down"), HasSubstr("Socket closed")));
  }
  EXPECT_EQ(planner.stopped(), 1);
  EXPECT_EQ(planner.calls(), 1);
}

}  // namespace
}  // namespace batchplan
