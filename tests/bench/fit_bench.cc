// What a report costs the server, apart from the store: a sample folded in, a state read and
// written, a budget suggested.
//
//   build/release/bench/fit_bench

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "server/fitting/fit_state.h"
#include "server/fitting/job_fit.h"
#include "tests/server/fitting/random_fit.h"

namespace batchplan {
namespace {

// A job after a thousand steps.
JobFit OldFit() {
  testing::RandomStream random(1);
  JobFit fit;
  for (uint64_t step = 0; step < 1000; ++step) AddReport(testing::RandomReport(random, step), fit);
  return fit;
}

void AddSamples(benchmark::State& state) {
  testing::RandomStream random(2);
  std::vector<TimingSample> samples;
  for (int i = 0; i < 4096; ++i) {
    samples.push_back(testing::Timed(random, testing::VariedMicrobatch(random),
                                     {.per_token = 0.01, .per_token_squared = 1e-6}, {}));
  }
  CostFit fit = OldFit().costs;
  size_t next = 0;
  for (auto _ : state) AddSample(samples[next++ % samples.size()], fit);
  benchmark::DoNotOptimize(fit);
}

void WriteAndReadState(benchmark::State& state) {
  const JobFit fit = OldFit();
  for (auto _ : state) benchmark::DoNotOptimize(ParseFit(SerializeFit(fit)));
  state.counters["bytes"] = static_cast<double>(SerializeFit(fit).size());
}

void SuggestBudget(benchmark::State& state) {
  const JobFit fit = OldFit();
  for (auto _ : state) {
    benchmark::DoNotOptimize(SuggestTokens(fit.memory, uint64_t{80'000'000'000}));
  }
}

BENCHMARK(AddSamples);
BENCHMARK(WriteAndReadState);
BENCHMARK(SuggestBudget);

}  // namespace
}  // namespace batchplan
