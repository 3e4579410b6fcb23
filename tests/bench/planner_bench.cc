// Bounds, splits and whole plans over lengths as training batches have them.
//
//   build/release/bench/planner_bench --benchmark_counters_tabular=true

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "server/planner/make_plan.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/padded/optimal_split.h"
#include "server/planner/padded/sorted_scan.h"
#include "server/planner/presets.h"
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

void OptimalSplits(benchmark::State& state) {
  std::vector<uint32_t> widths = Lengths(state);
  std::sort(widths.begin(), widths.end());
  const PaddedItems items{.widths = widths};
  const PaddedLimits limits{.tokens = kBudget};
  const size_t fewest = SortedScan(items, limits).size() - 1;
  // Room to choose, as when another rank has more micro-batches.
  const size_t runs = fewest + fewest / 16;
  for (auto _ : state) benchmark::DoNotOptimize(OptimalSplit(items, limits, runs).data());
  PerSequence(state);
}

void LowerBound(benchmark::State& state) {
  const std::vector<uint32_t> lengths = Lengths(state);
  for (auto _ : state)
    benchmark::DoNotOptimize(LowerBoundBins({.lengths = lengths}, {.capacity = kBudget}));
  PerSequence(state);
}

void PlanPreset(benchmark::State& state, const char* preset) {
  const std::vector<uint32_t> lengths = Lengths(state);
  PlanOptions options;
  options.topology.data_parallel = 16;
  options.passes.push_back(PresetPass(preset, options.topology).value());
  options.passes[0].max_tokens_per_microbatch = kBudget;
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

BENCHMARK(LowerBound)->Apply(Sizes);
BENCHMARK(OptimalSplits)->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, nemo_rl_packing, "nemo_rl_packing")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, nemo_rl_dynamic, "nemo_rl_dynamic")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, roll_packing, "roll_packing")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, mindspeed_rl, "mindspeed_rl")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, verl, "verl")->Apply(Sizes);

}  // namespace
}  // namespace batchplan
