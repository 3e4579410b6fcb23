// What one caller can't do to others, and what is refused before planning, on a real server whose
// planner the test controls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "server/planner/make_plan.h"
#include "tests/server/service/held_planner.h"
#include "tests/server/service/http2_frames.h"
#include "tests/server/service/requests.h"
#include "tests/server/telemetry/local_socket.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

ServerOptions TwoThreads() {
  ServerOptions options = TestServer::Options();
  options.planning_threads = 2;
  return options;
}

v1::PlanBatchRequest RequestOf(const std::string& job, int sequences = 256) {
  v1::PlanBatchRequest request = ValidRequest(sequences);
  request.set_job_id(job);
  return request;
}

// Plans at EFFORT_THOROUGH last `slow`, unless stopped.
PlanFunction SlowWhereThorough(std::chrono::milliseconds slow) {
  return [slow](const Manifest& manifest, const PlanOptions& options,
                const std::stop_token& stop) -> absl::StatusOr<Plan> {
    const auto end = std::chrono::steady_clock::now() + slow;
    while (options.effort == Effort::kThorough && std::chrono::steady_clock::now() < end) {
      if (stop.stop_requested()) return absl::CancelledError("stopped");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return MakePlan(manifest, options, stop);
  };
}

// Makes calls concurrently until it is destroyed.
class Flood {
 public:
  // `next` makes the next request of a caller.
  Flood(const TestServer& server, int callers, std::function<v1::PlanBatchRequest()> next) {
    for (int i = 0; i < callers; ++i) {
      callers_.emplace_back([stub = server.NewStub(), next](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          grpc::ClientContext context;
          context.set_deadline(GenerousDeadline());
          const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
          v1::PlanBatchResponse response;
          static_cast<void>(stub->PlanBatch(&context, next(), &response));
        }
      });
    }
  }

 private:
  std::vector<std::jthread> callers_;
};

TEST(AdmissionTest, FreshJobIdsDoNotKeepAKnownJobWaiting) {
  ServerOptions options = TwoThreads();
  options.max_queued_plans = 16;
  TestServer server(options, SlowWhereThorough(std::chrono::milliseconds(50)));
  const auto stub = server.NewStub();
  ASSERT_TRUE(PlanBatch(*stub, RequestOf("victim")).ok());
  std::atomic<int> last = 0;
  const Flood flood(server, 32, [&last] {
    v1::PlanBatchRequest request = RequestOf("fresh-" + std::to_string(++last));
    request.set_effort(v1::EFFORT_THOROUGH);
    return request;
  });
  while (server.Metric("batchplan_queue_depth") < 16) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) {
    const grpc::Status status = PlanBatch(*stub, RequestOf("victim"));
    ASSERT_TRUE(status.ok()) << i << " " << status.error_message();
  }
}

TEST(AdmissionTest, LongCallsOfOneJobLeaveAThreadToOthers) {
  HeldPlanner planner(/*hold=*/1);
  TestServer server(TwoThreads(), planner.function());
  const auto plan = [&](const std::string& job) {
    const grpc::Status status = PlanBatch(*server.NewStub(), RequestOf(job));
    EXPECT_TRUE(status.ok()) << status.error_message();
  };
  std::vector<std::jthread> greedy;
  greedy.emplace_back(plan, "greedy");
  planner.WaitUntilHeld();
  for (int i = 0; i < 4; ++i) greedy.emplace_back(plan, "greedy");
  while (server.Metric("batchplan_queue_depth") < 4) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) plan("small");
  plan("another");
  EXPECT_EQ(planner.calls(), 5);
  planner.Release();
}

TEST(AdmissionTest, OneThreadIsTwo) {
  HeldPlanner planner(/*hold=*/1);
  ServerOptions options = TestServer::Options();
  options.planning_threads = 1;
  TestServer server(options, planner.function());
  std::jthread greedy([&] { EXPECT_TRUE(PlanBatch(*server.NewStub(), RequestOf("greedy")).ok()); });
  planner.WaitUntilHeld();
  EXPECT_TRUE(PlanBatch(*server.NewStub(), RequestOf("small")).ok());
  planner.Release();
}

TEST(AdmissionTest, NobodyIsRefusedBecauseAnotherJobIsSlow) {
  TestServer server(TwoThreads(), SlowWhereThorough(std::chrono::milliseconds(300)));
  const auto call_all = [&](int calls, const v1::PlanBatchRequest& request,
                            std::chrono::seconds time) {
    std::vector<std::jthread> callers;
    for (int i = 0; i < calls; ++i) {
      callers.emplace_back([&] {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + time);
        v1::PlanBatchResponse response;
        const grpc::Status status = server.NewStub()->PlanBatch(&context, request, &response);
        EXPECT_TRUE(status.ok()) << status.error_message();
      });
    }
  };
  v1::PlanBatchRequest slow = RequestOf("slow", 64);
  slow.set_effort(v1::EFFORT_THOROUGH);
  call_all(7, slow, std::chrono::seconds(120));
  // At the rate of the slow ones, each of these would need a minute.
  v1::PlanBatchRequest fast = RequestOf("fast", 16'384);
  fast.set_effort(v1::EFFORT_FAST);
  call_all(8, fast, std::chrono::seconds(30));
}

TEST(AdmissionTest, APlanThatTakesTooLongIsEndedForGood) {
  HeldPlanner planner(/*hold=*/1);
  ServerOptions options = TwoThreads();
  options.max_planning_seconds = absl::Milliseconds(200);
  TestServer server(options, planner.function());
  grpc::ClientContext context;
  context.set_deadline(GenerousDeadline());
  v1::PlanBatchResponse response;
  const grpc::Status status = server.NewStub()->PlanBatch(&context, ValidRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("max_planning_seconds=0.2"));
  const auto pushback = context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, context.GetServerTrailingMetadata().end());
  EXPECT_EQ(pushback->second, "-1") << "the same would take as long again";
  EXPECT_EQ(planner.stopped(), 1);
  EXPECT_EQ(server.Metric("batchplan_refusals_total{reason=\"too_long\"}"), 1);
  EXPECT_TRUE(PlanBatch(*server.NewStub(), ValidRequest()).ok());
}

TEST(AdmissionTest, APlanThatTakesTooLongIsNoOutcomeOfAStep) {
  HeldPlanner planner(/*hold=*/1);
  ServerOptions options = TwoThreads();
  options.max_planning_seconds = absl::Milliseconds(200);
  TestServer server(options, planner.function());
  v1::JoinBatchRequest part;
  *part.mutable_request() = ValidRequest();
  part.set_world_size(1);
  const auto join = [&] {
    grpc::ClientContext context;
    context.set_deadline(GenerousDeadline());
    v1::JoinBatchResponse response;
    return server.NewStub()->JoinBatch(&context, part, &response);
  };
  const grpc::Status status = join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("max_planning_seconds"));
  EXPECT_TRUE(join().ok()) << "the same step";
}

TEST(AdmissionTest, WhatIsBeyondALimitIsRefusedBeforeItIsPlanned) {
  HeldPlanner planner(/*hold=*/0);
  TestServer server(TwoThreads(), planner.function());
  const auto refused = [&](const v1::PlanBatchRequest& request, grpc::StatusCode code,
                           const std::string& limit) {
    const grpc::Status status = PlanBatch(*server.NewStub(), request);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(limit));
  };
  // Some 60 bytes that ask for 2^24 micro-batches in each of two passes.
  v1::PlanBatchRequest tiny;
  tiny.mutable_manifest()->add_lengths(1);
  tiny.mutable_topology()->set_data_parallel(65'536);
  tiny.set_allow_empty_microbatches(true);
  for (const char* name : {"a", "b"}) {
    v1::Pass* pass = tiny.add_passes();
    pass->set_name(name);
    pass->set_max_tokens_per_microbatch(8);
    pass->set_min_microbatches(256);
  }
  ASSERT_LT(tiny.ByteSizeLong(), 60U);
  refused(tiny, grpc::StatusCode::INVALID_ARGUMENT, "33554432 micro-batches");

  v1::PlanBatchRequest often;
  often.mutable_manifest()->mutable_lengths()->Resize(900'000, 1);
  for (int pass = 0; pass < 64; ++pass) {
    often.add_passes()->set_name(std::to_string(pass));
    often.mutable_passes(pass)->set_max_tokens_per_microbatch(4096);
  }
  refused(often, grpc::StatusCode::INVALID_ARGUMENT, "57600000 in all");

  v1::PlanBatchRequest large;
  large.mutable_manifest()->mutable_lengths()->Resize(4'000'000, 1);
  for (int pass = 0; pass < 2; ++pass) *large.add_passes() = often.passes(pass);
  ServerOptions small_answers = TwoThreads();
  small_answers.max_sequences = 8 << 20;
  small_answers.max_message_bytes = 16 << 20;
  TestServer small(small_answers, planner.function());
  const grpc::Status status = PlanBatch(*small.NewStub(), large);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("max_message_bytes=16777216"));
  EXPECT_EQ(planner.calls(), 0);
}

TEST(AdmissionTest, WhatNobodyReadsStaysWithinItsBudget) {
  constexpr int kReaders = 20;
  ServerOptions options = TwoThreads();
  options.max_unsent_bytes = 2 << 20;
  TestServer server(options);
  // A short request with a long answer of empty micro-batches.
  v1::PlanBatchRequest request = RequestOf("unread", 100);
  request.set_effort(v1::EFFORT_FAST);
  request.mutable_topology()->set_data_parallel(1024);
  request.set_allow_empty_microbatches(true);
  request.mutable_passes(0)->set_min_microbatches(128);
  const std::string message = request.SerializeAsString();
  v1::PlanBatchResponse response;
  ASSERT_TRUE(PlanBatch(*server.NewStub(), request, &response).ok());
  const double answer = static_cast<double>(response.ByteSizeLong());
  ASSERT_GT(kReaders * answer, options.max_unsent_bytes);

  // Readers that allow the server to send nothing: SETTINGS_INITIAL_WINDOW_SIZE is 0.
  std::vector<std::unique_ptr<LocalSocket>> readers;
  const std::string no_window("\x00\x04\x00\x00\x00\x00", 6);
  for (int i = 0; i < kReaders; ++i) {
    readers.push_back(std::make_unique<LocalSocket>(server.server().port()));
    const std::string body = http2::MessagePrefix(static_cast<uint32_t>(message.size())) + message;
    ASSERT_TRUE(readers.back()->Send(
        http2::Preface() + http2::Frame(http2::kSettings, 0, 0, no_window) +
        http2::PlanBatchHeaders(1) + http2::Frame(http2::kData, http2::kEndStream, 1, body)));
  }
  const auto answered = [&] {
    return server.Metric(
               "batchplan_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"PlanBatch\"}") +
           server.Metric("batchplan_requests_total{code=\"OK\",method=\"PlanBatch\"}");
  };
  while (answered() < kReaders + 1) {
    EXPECT_LE(server.Metric("batchplan_unsent_bytes"), options.max_unsent_bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GT(server.Metric("batchplan_unsent_bytes"), answer);
  EXPECT_LE(server.Metric("batchplan_unsent_bytes"), options.max_unsent_bytes);
  EXPECT_GT(server.Metric("batchplan_refusals_total{reason=\"unread\"}"), 0);
  // Old ones are cancelled in favour of new ones.
  while (!PlanBatch(*server.NewStub(), request).ok()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  readers.clear();
  while (server.Metric("batchplan_unsent_bytes") > 0) std::this_thread::yield();
  EXPECT_TRUE(PlanBatch(*server.NewStub(), request).ok());
}

}  // namespace
}  // namespace batchplan
