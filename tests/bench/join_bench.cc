// What a step costs that workers join: on one server that keeps it in its own memory, and on three
// replicas that share a redis-server, with the workers spread over them.
//
//   build/release/bench/join_bench --benchmark_counters_tabular=true
//
// A time is that of a whole step of 4,096 sequences, from the first worker's call to the last
// one's answer; all workers call at once, and each gets its own rank's slice. planning_ms of it is
// the plan. The servers, the workers and Redis share this machine; a worker's connection is one of
// 16, as of so many hosts.

#include <benchmark/benchmark.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/telemetry/log.h"
#include "tests/support/generators.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

constexpr size_t kSequences = 4096;
constexpr uint32_t kRanks = 8;
constexpr size_t kConnections = 16;

// What one worker sends, and what it gets.
struct Worker {
  v1::JoinBatchRequest request;
  v1::JoinBatchResponse response;
  std::unique_ptr<grpc::ClientContext> context;
  grpc::Status status;
};

std::vector<Worker> Workers(size_t count) {
  const std::vector<uint32_t> lengths = testing::MathsLengths(kSequences, /*seed=*/1);
  std::vector<Worker> workers(count);
  for (size_t w = 0; w < count; ++w) {
    v1::JoinBatchRequest& join = workers[w].request;
    join.set_worker(static_cast<uint32_t>(w));
    join.set_world_size(static_cast<uint32_t>(count));
    join.set_own_slice_only(true);
    join.set_data_parallel_rank(static_cast<uint32_t>(w) % kRanks);
    v1::PlanBatchRequest& request = *join.mutable_request();
    request.set_job_id("bench");
    request.set_effort(v1::EFFORT_FAST);
    request.mutable_topology()->set_data_parallel(kRanks);
    request.add_passes()->set_max_tokens_per_microbatch(16384);
    for (size_t i = w * kSequences / count; i < (w + 1) * kSequences / count; ++i) {
      request.mutable_manifest()->add_lengths(lengths[i]);
    }
  }
  return workers;
}

void JoinSteps(benchmark::State& state, const std::vector<std::unique_ptr<TestServer>>& servers) {
  std::vector<std::unique_ptr<v1::BatchPlanner::Stub>> stubs;
  for (size_t i = 0; i < kConnections; ++i) stubs.push_back(servers[i % servers.size()]->NewStub());
  std::vector<Worker> workers = Workers(static_cast<size_t>(state.range(0)));
  uint64_t step = 0;
  double planning_seconds = 0;
  for (auto _ : state) {
    std::latch answers(static_cast<std::ptrdiff_t>(workers.size()));
    ++step;
    for (size_t w = 0; w < workers.size(); ++w) {
      Worker& worker = workers[w];
      worker.request.mutable_request()->set_step(step);
      worker.context = std::make_unique<grpc::ClientContext>();
      worker.context->set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
      stubs[w % kConnections]->async()->JoinBatch(worker.context.get(), &worker.request,
                                                  &worker.response,
                                                  [&worker, &answers](const grpc::Status& status) {
                                                    worker.status = status;
                                                    answers.count_down();
                                                  });
    }
    answers.wait();
    const auto failed = std::find_if(workers.begin(), workers.end(),
                                     [](const Worker& worker) { return !worker.status.ok(); });
    if (failed != workers.end()) {
      return state.SkipWithError(failed->status.error_message().c_str());
    }
    planning_seconds +=
        static_cast<double>(workers[0].response.plan().planning_time().nanos()) * 1e-9;
  }
  state.counters["planning_ms"] =
      benchmark::Counter(1e3 * planning_seconds, benchmark::Counter::kAvgIterations);
  state.counters["joins"] = benchmark::Counter(static_cast<double>(workers.size()),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

ServerOptions Options() {
  ServerOptions options = TestServer::Options();
  // What was answered is of no more use.
  options.step_retention = absl::Seconds(1);
  return options;
}

void JoinOneServer(benchmark::State& state) {
  std::vector<std::unique_ptr<TestServer>> servers;
  servers.push_back(std::make_unique<TestServer>(Options()));
  JoinSteps(state, servers);
}
BENCHMARK(JoinOneServer)
    ->RangeMultiplier(8)
    ->Range(1, 4096)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void JoinReplicas(benchmark::State& state) {
  testing::RedisServer redis;
  ServerOptions options = Options();
  options.rendezvous_store = redis.url();
  std::vector<std::unique_ptr<TestServer>> servers;
  for (int i = 0; i < 3; ++i) servers.push_back(std::make_unique<TestServer>(options));
  JoinSteps(state, servers);
}
BENCHMARK(JoinReplicas)
    ->RangeMultiplier(8)
    ->Range(1, 4096)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace batchplan

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  batchplan::SetLogOptions({.lowest = batchplan::Severity::kWarning});
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
