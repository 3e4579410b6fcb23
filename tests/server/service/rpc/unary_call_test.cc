// What the calls of all methods have in common, with the test's own methods on a real server.

#include "server/service/rpc/unary_call.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "batchplan/v1/batch_planner.grpc.pb.h"
#include "server/service/admission/planning_pool.h"
#include "server/service/planning/message_bytes.h"
#include "tests/server/service/requests.h"
#include "tests/support/captured_log.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class ScriptedCall;
using Script = std::function<void(ScriptedCall&)>;

// A call that does what the test tells it.
class ScriptedCall final : public UnaryCall {
 public:
  ScriptedCall(const CallEnvironment& environment, const RawCall& raw, const Script& script)
      : UnaryCall({"Scripted", OutlinePlanBatch}, environment, raw), script_(script) {}

  using UnaryCall::Answer;
  using UnaryCall::self;
  using UnaryCall::stop;

  // Answers when the call is stopped.
  void AnswerStops() {
    stopped_.emplace(stop(), [this] { Answer(absl::CancelledError("stopped")); });
  }

 private:
  void Run() override { script_(*this); }

  const Script& script_;
  std::optional<std::stop_callback<std::function<void()>>> stopped_;
};

CallAnswer AnswerOf(uint64_t microbatches) {
  v1::PlanBatchResponse response;
  response.set_fingerprint("of " + std::to_string(microbatches));
  return {.response = *ToBytes(response), .microbatches = microbatches, .recalled = {}};
}

class ScriptedServer
    : public v1::BatchPlanner::WithRawCallbackMethod_PlanBatch<v1::BatchPlanner::Service> {
 public:
  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    stub_ = v1::BatchPlanner::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                          grpc::InsecureChannelCredentials()));
  }
  ~ScriptedServer() override { server_->Shutdown(); }

  v1::BatchPlanner::Stub& stub() { return *stub_; }

  std::string MetricsText() {
    return prometheus::TextSerializer().Serialize(metrics_.collectable()->Collect());
  }

 private:
  grpc::ServerUnaryReactor* PlanBatch(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override {
    return UnaryCall::Start(
        std::make_shared<ScriptedCall>(environment_, RawCall{context, request, response}, script_));
  }

  const Script script_;
  Metrics metrics_{"test"};
  PlanningPool pool_{{.threads = 2}, &metrics_};
  CallEnvironment environment_{.pool = &pool_, .metrics = &metrics_, .limits = {}};
  std::unique_ptr<v1::BatchPlanner::Stub> stub_;
  std::unique_ptr<grpc::Server> server_;
};

std::string FingerprintOrError(ScriptedServer& server) {
  v1::PlanBatchResponse response;
  const grpc::Status status = PlanBatch(server.stub(), ValidRequest(), &response);
  return status.ok() ? response.fingerprint() : status.error_message();
}

TEST(UnaryCallTest, TheFirstAnswerCounts) {
  ScriptedServer server([](ScriptedCall& call) {
    call.Answer(AnswerOf(1));
    call.Answer(AnswerOf(2));
    call.Answer(absl::InternalError("too late"));
    throw std::bad_alloc();
  });
  EXPECT_EQ(FingerprintOrError(server), "of 1");
  EXPECT_THAT(server.MetricsText(),
              HasSubstr("batchplan_requests_total{code=\"INTERNAL\",method=\"other\"} 0\n"));
}

TEST(UnaryCallTest, OfAnswersFromManyThreadsOneIsSent) {
  CaptureLog();
  std::atomic<int> threads = 0;
  {
    ScriptedServer server([&threads](ScriptedCall& call) {
      for (uint64_t i = 0; i < 8; ++i) {
        std::thread([&threads, self = call.self(), i] {
          static_cast<ScriptedCall&>(*self).Answer(AnswerOf(i));
          ++threads;
        }).detach();
      }
    });
    for (int i = 0; i < 50; ++i) EXPECT_THAT(FingerprintOrError(server), HasSubstr("of "));
    // A call is logged after its answer.
    while (threads < 8 * 50) std::this_thread::yield();
  }
  const std::string log = CapturedLog();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 50) << log;
}

TEST(UnaryCallTest, AnAnswerMayComeLaterAndHoldsNoThread) {
  std::mutex mutex;
  std::vector<std::shared_ptr<UnaryCall>> waiting;
  ScriptedServer server([&](ScriptedCall& call) {
    std::lock_guard lock(mutex);
    waiting.push_back(call.self());
    // More calls than threads; the last call answers all.
    if (waiting.size() < 5) return;
    for (const std::shared_ptr<UnaryCall>& each : waiting) {
      static_cast<ScriptedCall&>(*each).Answer(AnswerOf(waiting.size()));
    }
  });
  std::vector<std::string> answers(5);
  {
    std::vector<std::jthread> callers;
    for (std::string& answer : answers) {
      callers.emplace_back([&server, &answer] { answer = FingerprintOrError(server); });
    }
  }
  EXPECT_THAT(answers, ::testing::Each("of 5"));
}

TEST(UnaryCallTest, ACallThatWaitsIsAnsweredWhenItIsCancelled) {
  std::mutex mutex;
  std::condition_variable changed;
  bool waits = false;
  ScriptedServer server([&](ScriptedCall& call) {
    call.AnswerStops();
    std::lock_guard lock(mutex);
    waits = true;
    changed.notify_all();
  });
  grpc::ClientContext context;
  context.set_deadline(GenerousDeadline());
  std::jthread canceller([&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return waits; });
    context.TryCancel();
  });
  v1::PlanBatchResponse response;
  EXPECT_EQ(server.stub().PlanBatch(&context, ValidRequest(), &response).error_code(),
            grpc::StatusCode::CANCELLED);
}

TEST(UnaryCallTest, WhatRunThrowsIsAnAnswer) {
  ScriptedServer server([](ScriptedCall&) { throw std::runtime_error("broken"); });
  EXPECT_EQ(FingerprintOrError(server), "unexpected exception: broken");
  EXPECT_THAT(server.MetricsText(),
              HasSubstr("batchplan_requests_total{code=\"INTERNAL\",method=\"other\"} 1\n"));
}

TEST(UnaryCallTest, ALineSaysEverythingThatTheCallGoesBy) {
  CaptureLog();
  {
    ScriptedServer server([](ScriptedCall& call) { call.Answer(AnswerOf(12)); });
    v1::PlanBatchRequest request = ValidRequest(100);
    request.set_step(17);
    grpc::ClientContext context;
    context.AddMetadata("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    v1::PlanBatchResponse response;
    EXPECT_TRUE(server.stub().PlanBatch(&context, request, &response).ok());
  }
  EXPECT_THAT(CapturedLog(),
              MatchesRegex(".* INFO event=Scripted request_id=r-1 job=test step=17 sequences=100 "
                           "microbatches=12 seconds=[^ ]* traceparent=00-4bf92f3577b34da6a3ce929d"
                           "0e0e4736-00f067aa0ba902b7-01 code=OK\n"));
}

TEST(UnaryCallTest, ACallWithoutARequestIdGetsOne) {
  CaptureLog();
  {
    ScriptedServer server([](ScriptedCall& call) { call.Answer(AnswerOf(1)); });
    v1::PlanBatchRequest request = ValidRequest();
    request.clear_request_id();
    EXPECT_TRUE(PlanBatch(server.stub(), request).ok());
  }
  EXPECT_THAT(CapturedLog(), HasSubstr(" request_id=server-"));
}

TEST(UnaryCallTest, WhatIsOverALimitIsRefusedWithItsNamesInTheLog) {
  CaptureLog();
  {
    ScriptedServer server([](ScriptedCall& call) { call.Answer(AnswerOf(1)); });
    v1::PlanBatchRequest request = ValidRequest(10);
    request.set_job_id("forged\nline");
    const grpc::Status status = PlanBatch(server.stub(), request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("job_id \"forged\\nline\""));
  }
  const std::string log = CapturedLog();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_THAT(log, HasSubstr("request_id=r-1 job=\"forged\\nline\" step=0 sequences=10"));
  EXPECT_THAT(log, Not(HasSubstr("microbatches")));
}

}  // namespace
}  // namespace batchplan
