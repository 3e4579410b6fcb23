// Packers, bounds and whole plans over lengths as training batches have them, beside std::sort of
// the same lengths as a yardstick that does not depend on the machine.
//
//   build/release/bench/planner_bench --benchmark_counters_tabular=true

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "server/planner/make_plan.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/packing/packer.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

constexpr uint32_t kBudget = 16384;

std::vector<uint32_t> Lengths(const benchmark::State& state) {
  return testing::MathsLengths(static_cast<size_t>(state.range(0)), 1);
}

void PerSequence(benchmark::State& state) {
  state.counters["per_sequence"] = benchmark::Counter(
      static_cast<double>(state.range(0)),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void StdSort(benchmark::State& state) {
  const std::vector<uint32_t> lengths = Lengths(state);
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<uint32_t> sorted = lengths;
    state.ResumeTiming();
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    benchmark::DoNotOptimize(sorted.data());
  }
  PerSequence(state);
}

void PackLengths(benchmark::State& state, Packer packer) {
  const std::vector<uint32_t> lengths = Lengths(state);
  size_t bins = 0;
  for (auto _ : state) {
    bins = Pack(packer, {.lengths = lengths}, {.capacity = kBudget}, 1).size();
    benchmark::DoNotOptimize(bins);
  }
  PerSequence(state);
  state.counters["bins"] = static_cast<double>(bins);
  state.counters["bound"] =
      static_cast<double>(LowerBoundBins({.lengths = lengths}, {.capacity = kBudget}));
}

void LowerBound(benchmark::State& state) {
  const std::vector<uint32_t> lengths = Lengths(state);
  for (auto _ : state)
    benchmark::DoNotOptimize(LowerBoundBins({.lengths = lengths}, {.capacity = kBudget}));
  PerSequence(state);
}

void Plan(benchmark::State& state) {
  const std::vector<uint32_t> lengths = Lengths(state);
  PlanOptions options;
  options.topology.data_parallel = 16;
  PassOptions& pass = options.passes.emplace_back();
  pass.max_tokens_per_microbatch = kBudget;
  pass.packer = Packer::kModifiedFirstFitDecreasing;
  pass.sharding = Sharding::kDealBins;
  double efficiency = 0;
  for (auto _ : state) {
    efficiency = MakePlan({.lengths = lengths}, options)->passes[0].metrics.step_efficiency;
  }
  PerSequence(state);
  state.counters["step_efficiency"] = efficiency;
}

constexpr int64_t kSizes[] = {1024, 16384, 131072, 1 << 20};

void Sizes(benchmark::internal::Benchmark* bench) {
  for (const int64_t size : kSizes) bench->Arg(size);
  bench->Unit(benchmark::kMillisecond);
}

BENCHMARK(StdSort)->Apply(Sizes);
BENCHMARK_CAPTURE(PackLengths, concatenative, Packer::kConcatenative)->Apply(Sizes);
BENCHMARK_CAPTURE(PackLengths, first_fit_decreasing, Packer::kFirstFitDecreasing)->Apply(Sizes);
BENCHMARK_CAPTURE(PackLengths, first_fit_shuffle, Packer::kFirstFitShuffle)->Apply(Sizes);
BENCHMARK_CAPTURE(PackLengths, modified_first_fit_decreasing, Packer::kModifiedFirstFitDecreasing)
    ->Apply(Sizes);
BENCHMARK_CAPTURE(PackLengths, best_fit_decreasing, Packer::kBestFitDecreasing)->Apply(Sizes);
BENCHMARK(LowerBound)->Apply(Sizes);
BENCHMARK(Plan)->Apply(Sizes);

}  // namespace
}  // namespace batchplan
