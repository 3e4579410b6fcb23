// Packers, partitions, bounds and whole plans over lengths as training batches have them, beside
// std::sort of the same lengths as a yardstick that does not depend on the machine.
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
#include "server/planner/padded/optimal_split.h"
#include "server/planner/padded/sorted_scan.h"
#include "server/planner/partition/karmarkar_karp.h"
#include "server/planner/partition/longest_first.h"
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

std::vector<uint64_t> Loads(const benchmark::State& state) {
  std::vector<uint64_t> loads;
  for (const uint64_t length : Lengths(state)) loads.push_back(24576 * length + length * length);
  return loads;
}

// The largest sum over the mean.
double Imbalance(const std::vector<uint64_t>& loads, const std::vector<uint32_t>& part_of,
                 uint32_t parts) {
  std::vector<double> sums(parts, 0);
  double total = 0;
  for (size_t i = 0; i < loads.size(); ++i) {
    sums[part_of[i]] += static_cast<double>(loads[i]);
    total += static_cast<double>(loads[i]);
  }
  return *std::max_element(sums.begin(), sums.end()) * parts / total;
}

template <typename Divide>
void DivideLoads(benchmark::State& state, Divide divide) {
  const std::vector<uint64_t> loads = Loads(state);
  const auto parts = static_cast<uint32_t>(state.range(1));
  std::vector<uint32_t> part_of;
  for (auto _ : state) {
    part_of = divide(loads, parts);
    benchmark::DoNotOptimize(part_of.data());
  }
  PerSequence(state);
  state.counters["imbalance"] = Imbalance(loads, part_of, parts);
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

void Parts(benchmark::internal::Benchmark* bench) {
  for (const int64_t parts : {64, 1024}) {
    for (const int64_t size : {16384, 131072}) bench->Args({size, parts});
  }
  bench->Unit(benchmark::kMillisecond);
}

BENCHMARK(StdSort)->Apply(Sizes);
BENCHMARK_CAPTURE(PackLengths, concatenative, Packer::kConcatenative)->Apply(Sizes);
BENCHMARK_CAPTURE(PackLengths, first_fit_decreasing, Packer::kFirstFitDecreasing)->Apply(Sizes);
BENCHMARK_CAPTURE(PackLengths, first_fit_shuffle, Packer::kFirstFitShuffle)->Apply(Sizes);
BENCHMARK_CAPTURE(PackLengths, modified_first_fit_decreasing, Packer::kModifiedFirstFitDecreasing)
    ->Apply(Sizes);
BENCHMARK_CAPTURE(PackLengths, best_fit_decreasing, Packer::kBestFitDecreasing)->Apply(Sizes);
BENCHMARK_CAPTURE(PackLengths, karmarkar_karp, Packer::kKarmarkarKarp)->Apply(Sizes);
BENCHMARK(LowerBound)->Apply(Sizes);
BENCHMARK_CAPTURE(DivideLoads, karmarkar_karp, KarmarkarKarp)->Apply(Parts);
BENCHMARK_CAPTURE(DivideLoads, karmarkar_karp_equal, KarmarkarKarpEqual)->Apply(Parts);
BENCHMARK_CAPTURE(DivideLoads, longest_first, [](const auto& loads, uint32_t parts) {
  return LongestFirst(loads, parts);
}) -> Apply(Parts);
BENCHMARK(OptimalSplits)->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, nemo_rl_packing, "nemo_rl_packing")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, nemo_rl_dynamic, "nemo_rl_dynamic")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, roll_packing, "roll_packing")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, mindspeed_rl, "mindspeed_rl")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, verl, "verl")->Apply(Sizes);

}  // namespace
}  // namespace batchplan
