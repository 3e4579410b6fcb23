// What a step costs in the stores that can hold it: in this process's memory, and in a redis-server
// on this machine.
//
//   build/release/bench/store_bench --benchmark_counters_tabular=true
//
// A time is that of a whole step: workers put their parts one after the other, then all parts are
// read and an outcome is written. put_us is the time for one part, parts_ms for reading.
// memory_ratio is the memory for the step, as Redis reports it, over the bytes of its parts.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/memory_step_store.h"
#include "server/store/redis/redis_stores.h"
#include "tests/support/generators.h"
#include "tests/support/redis_server.h"

namespace batchplan {
namespace {

using testing::RandomStream;
using testing::RedisServer;

// A length of some thousand tokens has two or three bytes on the wire.
constexpr size_t kBytesPerSequence = 3;

template <typename T>
T Get(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::cerr << result.status() << "\n";
  std::exit(1);
}

std::vector<StepPart> Parts(const benchmark::State& state) {
  RandomStream random(1);
  std::vector<StepPart> parts(static_cast<size_t>(state.range(0)));
  for (size_t worker = 0; worker < parts.size(); ++worker) {
    std::string content(static_cast<size_t>(state.range(1)) * kBytesPerSequence, '\0');
    for (char& byte : content) byte = static_cast<char>(random.Between(0, 255));
    parts[worker] = {.worker = static_cast<uint32_t>(worker),
                     .world_size = static_cast<uint32_t>(parts.size()),
                     .terms = std::string(300, 't'),
                     .content = std::move(content)};
  }
  return parts;
}

void RunSteps(benchmark::State& state, StepStore& store) {
  const std::vector<StepPart> parts = Parts(state);
  StepKey key = {.job_id = "bench", .step = 0};
  absl::Duration putting;
  absl::Duration reading;
  for (auto _ : state) {
    ++key.step;
    const absl::Time begin = absl::Now();
    for (const StepPart& part : parts) Get(store.PutPart(key, part));
    const absl::Time put = absl::Now();
    const StepParts step = Get(store.Parts(key));
    if (step.contents.size() != parts.size()) std::exit(1);
    const absl::Time read = absl::Now();
    Get(store.PutOutcome(key, step.incarnation, {.bytes = std::string(200, 'o')}));
    putting += put - begin;
    reading += read - put;
  }
  const double steps = static_cast<double>(state.iterations());
  state.counters["put_us"] =
      absl::ToDoubleMicroseconds(putting) / steps / static_cast<double>(parts.size());
  state.counters["parts_ms"] = absl::ToDoubleMilliseconds(reading) / steps;
}

// Short, so that memory holds few steps at a time.
const StepStoreOptions kLifetimes = {.time_to_live = absl::Seconds(60),
                                     .retention = absl::Milliseconds(100)};

void InMemory(benchmark::State& state) {
  MemoryStepStore store({.lifetimes = kLifetimes, .max_bytes = int64_t{8} << 30},
                        std::chrono::steady_clock::now);
  RunSteps(state, store);
}

void InRedis(benchmark::State& state, bool by_socket) {
  static RedisServer redis;
  redis.Command({"FLUSHALL"});
  const std::string url = by_socket ? redis.socket_url() : redis.url();
  RedisStores stores = Get(OpenRedisStores(
      url,
      {.lifetimes = kLifetimes,
       .client = {.connect_timeout = absl::Seconds(10), .command_timeout = absl::Seconds(10)}}));
  RunSteps(state, *stores.steps);

  const StepKey key = {.job_id = "memory", .step = 1};
  size_t bytes = 0;
  for (const StepPart& part : Parts(state)) {
    Get(stores.steps->PutPart(key, part));
    bytes += part.content.size();
  }
  const std::string used =
      redis.Command({"MEMORY", "USAGE", "batchplan:v1:step:memory/1", "SAMPLES", "0"});
  state.counters["memory_ratio"] = std::stod(used) / static_cast<double>(bytes);
}

void RedisByTcp(benchmark::State& state) { InRedis(state, false); }
void RedisBySocket(benchmark::State& state) { InRedis(state, true); }

void Shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"workers", "sequences"})
      ->Args({8, 128})
      ->Args({64, 1024})
      ->Args({1000, 1000})
      ->Args({8, 131072})
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

BENCHMARK(InMemory)->Apply(Shapes);
BENCHMARK(RedisByTcp)->Apply(Shapes);
BENCHMARK(RedisBySocket)->Apply(Shapes);

}  // namespace
}  // namespace batchplan
