// What a step costs that workers join: on one server that keeps it in its own memory, and on three
// replicas that share a redis-server, with the workers spread over them.
//
//   build/release/bench/join_bench --benchmark_counters_tabular=true
//
// Each worker gets its own rank's slice, and of the rest what is its own. JoinOneServer and
// JoinReplicas: the time of a whole step of 4,096 sequences, from the first worker's call to the
// last one's answer; all workers call at once. LastPartOneServer and LastPartReplicas: of a step of
// 256 sequences a worker, and as many ranks as workers, the time from the last worker's call to the
// last answer; the others wait by then. planning_ms of it is the plan, plans how many replicas made
// it, answer_bytes what all workers got together. The servers, the workers and Redis share this
// machine; a worker's connection is one of 16, as of so many hosts.

#include <benchmark/benchmark.h>
#include <google/protobuf/util/time_util.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/planner/make_plan.h"
#include "server/telemetry/log.h"
#include "tests/support/generators.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

constexpr size_t kConnections = 16;
constexpr absl::Duration kLongestJoin = absl::Minutes(1);

// Whether a join has failed; so does the program then.
bool any_failed = false;

// What one worker sends, and what it gets.
struct Worker {
  v1::JoinBatchRequest request;
  v1::JoinBatchResponse response;
  std::unique_ptr<grpc::ClientContext> context;
  grpc::Status status;
};

// So many workers with so many sequences together.
std::vector<Worker> Workers(size_t count, size_t sequences, uint32_t ranks) {
  const std::vector<uint32_t> lengths = testing::MathsLengths(sequences, /*seed=*/1);
  std::vector<Worker> workers(count);
  for (size_t w = 0; w < count; ++w) {
    v1::JoinBatchRequest& join = workers[w].request;
    join.set_worker(static_cast<uint32_t>(w));
    join.set_world_size(static_cast<uint32_t>(count));
    join.set_own_slice_only(true);
    join.set_own_part_only(true);
    join.set_data_parallel_rank(static_cast<uint32_t>(w) % ranks);
    v1::PlanBatchRequest& request = *join.mutable_request();
    request.set_job_id("bench");
    request.set_effort(v1::EFFORT_FAST);
    request.mutable_topology()->set_data_parallel(ranks);
    request.add_passes()->set_max_tokens_per_microbatch(16384);
    for (size_t i = w * sequences / count; i < (w + 1) * sequences / count; ++i) {
      request.mutable_manifest()->add_lengths(lengths[i]);
    }
  }
  return workers;
}

// Servers that count the plans that they make.
class Servers {
 public:
  Servers(size_t count, const ServerOptions& options) {
    for (size_t i = 0; i < count; ++i) {
      servers_.push_back(std::make_unique<TestServer>(
          options, [this](const Manifest& manifest, const PlanOptions& plan_options,
                          const std::stop_token& stop) {
            ++plans_;
            return MakePlan(manifest, plan_options, stop);
          }));
    }
    for (size_t i = 0; i < kConnections; ++i) stubs_.push_back(servers_[i % count]->NewStub());
  }

  // Calls `done` once the worker has its answer.
  template <typename Done>
  void Join(size_t w, Worker& worker, Done done) {
    worker.context = std::make_unique<grpc::ClientContext>();
    worker.context->set_deadline(std::chrono::system_clock::now() +
                                 absl::ToChronoMilliseconds(kLongestJoin));
    stubs_[w % kConnections]->async()->JoinBatch(
        worker.context.get(), &worker.request, &worker.response,
        [&worker, done = std::move(done)](const grpc::Status& status) {
          worker.status = status;
          done();
        });
  }

  // Returns once so many joins wait.
  void WaitUntilWaiting(size_t joins) const {
    const auto waiting = [&] {
      double all = 0;
      for (const auto& server : servers_) all += server->Metric("batchplan_joins_waiting");
      return all;
    };
    while (waiting() < static_cast<double>(joins)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  uint64_t plans() const { return plans_; }

 private:
  std::atomic<uint64_t> plans_ = 0;
  std::vector<std::unique_ptr<TestServer>> servers_;
  std::vector<std::unique_ptr<v1::BatchPlanner::Stub>> stubs_;
};

// Joins one step after the other; the last worker, if asked for, once all others wait, and with
// the time from there on.
void JoinSteps(benchmark::State& state, Servers& servers, std::vector<Worker> workers,
               bool last_part) {
  uint64_t step = 0;
  double planning_seconds = 0;
  size_t bytes = 0;
  for (auto _ : state) {
    std::latch answers(static_cast<std::ptrdiff_t>(workers.size()));
    ++step;
    auto start = std::chrono::steady_clock::now();
    for (size_t w = 0; w < workers.size(); ++w) {
      workers[w].request.mutable_request()->set_step(step);
      if (last_part && w + 1 == workers.size()) {
        servers.WaitUntilWaiting(w);
        start = std::chrono::steady_clock::now();
      }
      servers.Join(w, workers[w], [&answers] { answers.count_down(); });
    }
    answers.wait();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(seconds.count());
    const auto failed = std::find_if(workers.begin(), workers.end(),
                                     [](const Worker& worker) { return !worker.status.ok(); });
    if (failed != workers.end()) {
      any_failed = true;
      return state.SkipWithError(failed->status.error_message().c_str());
    }
    planning_seconds += static_cast<double>(google::protobuf::util::TimeUtil::DurationToNanoseconds(
                            workers[0].response.plan().planning_time())) *
                        1e-9;
    for (const Worker& worker : workers) bytes += worker.response.ByteSizeLong();
  }
  const auto a_step = [](double value) {
    return benchmark::Counter(value, benchmark::Counter::kAvgIterations);
  };
  state.counters["planning_ms"] = a_step(1e3 * planning_seconds);
  state.counters["plans"] = a_step(static_cast<double>(servers.plans()));
  state.counters["answer_bytes"] = a_step(static_cast<double>(bytes));
  state.counters["joins"] = benchmark::Counter(static_cast<double>(workers.size()),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

ServerOptions Options() {
  ServerOptions options = TestServer::Options();
  // As long as a worker may wait: on a slow machine its replica may find the plan that late.
  options.step_retention = kLongestJoin;
  return options;
}

std::vector<Worker> OfOneBatch(const benchmark::State& state) {
  return Workers(static_cast<size_t>(state.range(0)), /*sequences=*/4096, /*ranks=*/8);
}

std::vector<Worker> OfTheirOwnBatches(const benchmark::State& state) {
  const auto workers = static_cast<size_t>(state.range(0));
  return Workers(workers, 256 * workers, static_cast<uint32_t>(workers));
}

ServerOptions Sharing(const testing::RedisServer& redis) {
  ServerOptions options = Options();
  options.rendezvous_store = redis.url();
  return options;
}

void JoinOneServer(benchmark::State& state) {
  Servers servers(1, Options());
  JoinSteps(state, servers, OfOneBatch(state), /*last_part=*/false);
}

void JoinReplicas(benchmark::State& state) {
  const testing::RedisServer redis;
  Servers servers(3, Sharing(redis));
  JoinSteps(state, servers, OfOneBatch(state), /*last_part=*/false);
}

void LastPartOneServer(benchmark::State& state) {
  Servers servers(1, Options());
  JoinSteps(state, servers, OfTheirOwnBatches(state), /*last_part=*/true);
}

void LastPartReplicas(benchmark::State& state) {
  const testing::RedisServer redis;
  Servers servers(3, Sharing(redis));
  JoinSteps(state, servers, OfTheirOwnBatches(state), /*last_part=*/true);
}

void WholeSteps(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(8)->Range(1, 4096)->Unit(benchmark::kMillisecond)->UseManualTime();
}

void LastParts(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(2)->Range(512, 4096)->Unit(benchmark::kMillisecond)->UseManualTime();
}

BENCHMARK(JoinOneServer)->Apply(WholeSteps);
BENCHMARK(JoinReplicas)->Apply(WholeSteps);
BENCHMARK(LastPartOneServer)->Apply(LastParts);
BENCHMARK(LastPartReplicas)->Apply(LastParts);

}  // namespace
}  // namespace batchplan

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  batchplan::SetLogOptions({.lowest = batchplan::Severity::kWarning});
  benchmark::RunSpecifiedBenchmarks();
  return batchplan::any_failed ? 1 : 0;
}
