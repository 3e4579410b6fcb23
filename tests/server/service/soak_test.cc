// A server under long mixed load: its memory does not grow with the calls it has served.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/service/requests.h"
#include "tests/support/generators.h"
#include "tests/support/test_server.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// A function of the sanitizers' allocator; GCC has no header for it.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace batchplan {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;

constexpr int kClients = 4;
constexpr int kCallsARound = 200;

// The bytes that this process has allocated and not freed, including the test's.
size_t LiveBytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return __sanitizer_get_current_allocated_bytes();
#else
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
#endif
}

// A client that makes every kind of call, good and bad, for jobs and steps that never return.
class Caller {
 public:
  Caller(const TestServer& server, uint64_t seed) : stub_(server.NewStub()), random_(seed) {}

  void Call(const std::string& job, uint64_t step) {
    switch (random_.Between(1, 5)) {
      case 1:
        return Plan(job);
      case 2:
        return PlanInNoTime(job);
      case 3:
        return PlanNothing(job);
      case 4:
        return Join(job, step);
      default:
        return Report(step);
    }
  }

 private:
  v1::PlanBatchRequest Request(const std::string& job) {
    v1::PlanBatchRequest request = ValidRequest(static_cast<int>(random_.Between(4, 400)));
    request.set_job_id(job);
    request.set_effort(v1::EFFORT_FAST);
    return request;
  }

  void Plan(const std::string& job) { EXPECT_TRUE(PlanBatch(*stub_, Request(job)).ok()); }

  // Sets a deadline that passes before, during or after planning.
  void PlanInNoTime(const std::string& job) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::microseconds(random_.Between(0, 3000)));
    v1::PlanBatchResponse response;
    EXPECT_THAT(stub_->PlanBatch(&context, Request(job), &response).error_code(),
                AnyOf(Eq(grpc::OK), Eq(grpc::DEADLINE_EXCEEDED)));
  }

  void PlanNothing(const std::string& job) {
    v1::PlanBatchRequest request = Request(job);
    request.clear_manifest();
    EXPECT_EQ(PlanBatch(*stub_, request).error_code(), grpc::INVALID_ARGUMENT);
  }

  // Two workers join one after the other: the first gives up soon, the second completes the step.
  void Join(const std::string& job, uint64_t step) {
    for (uint32_t worker = 0; worker < 2; ++worker) {
      v1::JoinBatchRequest part;
      part.set_worker(worker);
      part.set_world_size(2);
      *part.mutable_request() = Request(job);
      part.mutable_request()->set_step(step);
      part.mutable_request()->mutable_topology()->set_data_parallel(1);
      part.mutable_timeout()->set_nanos(worker == 0 ? 1 : 0);
      part.mutable_timeout()->set_seconds(worker == 0 ? 0 : 60);
      grpc::ClientContext context;
      context.set_deadline(GenerousDeadline());
      v1::JoinBatchResponse response;
      EXPECT_EQ(stub_->JoinBatch(&context, part, &response).error_code(),
                worker == 0 ? grpc::DEADLINE_EXCEEDED : grpc::OK);
    }
  }

  // Fits live as long as their jobs, so only a few jobs report.
  void Report(uint64_t step) {
    v1::ReportStepRequest report;
    report.set_job_id(absl::StrCat("fitted-", step % 5));
    report.set_step(step);
    v1::MicrobatchTiming* timing = report.add_microbatches();
    timing->set_tokens(random_.Between(1, 8192));
    timing->set_tokens_squared(timing->tokens() * timing->tokens());
    timing->set_milliseconds(0.01 * static_cast<double>(timing->tokens()));
    grpc::ClientContext context;
    context.set_deadline(GenerousDeadline());
    v1::ReportStepResponse response;
    EXPECT_TRUE(stub_->ReportStep(&context, report, &response).ok());
  }

  std::unique_ptr<v1::BatchPlanner::Stub> stub_;
  testing::RandomStream random_;
};

// All clients call concurrently; then waits until their steps are forgotten.
void Round(TestServer& server, std::vector<Caller>& callers, uint64_t round) {
  std::vector<std::jthread> threads;
  threads.reserve(callers.size());
  for (uint64_t client = 0; client < callers.size(); ++client) {
    threads.emplace_back([&caller = callers[client], client, round] {
      for (uint64_t call = 0; call < kCallsARound; ++call) {
        const uint64_t step = (round * kClients + client) * kCallsARound + call;
        caller.Call(absl::StrCat("job-", step), step);
      }
    });
  }
  threads.clear();
  // ctest ends a test that waits forever.
  while (server.Metric("batchplan_rendezvous_memory_steps") != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST(Soak, MemoryIsFlat) {
  ServerOptions options = TestServer::Options();
  options.plan_cache_bytes = 256 << 10;
  options.max_job_labels = 8;
  // On a busy machine the second worker of a step may come late.
  options.step_time_to_live = absl::Minutes(1);
  options.step_retention = absl::Seconds(1);
  TestServer server(options);
  const size_t rounds = std::max<uint64_t>(12, testing::Cases(12));
  // First fills everything that is bounded: cache, labels, rates, arenas.
  std::vector<Caller> callers;
  for (uint64_t client = 0; client < kClients; ++client) callers.emplace_back(server, client);
  uint64_t round = 0;
  while (round < 20) Round(server, callers, round++);
  std::vector<size_t> live;
  for (size_t i = 0; i < rounds; ++i) {
    Round(server, callers, round++);
    live.push_back(LiveBytes());
  }
  // Memory that comes and goes is no growth, but forty bytes from every call are.
  const size_t before = *std::max_element(live.begin(), live.begin() + rounds / 4);
  const size_t after = *std::min_element(live.end() - rounds / 4, live.end());
  constexpr size_t kGrowth = 40;
  EXPECT_LT(after, before + rounds / 2 * kClients * kCallsARound * kGrowth)
      << ::testing::PrintToString(live);
  RecordProperty("bytes_before", std::to_string(before));
  RecordProperty("bytes_after", std::to_string(after));
}

}  // namespace
}  // namespace batchplan
