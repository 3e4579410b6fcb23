// Bounds, splits and whole plans over lengths as training batches have them.
//
//   build/release/bench/planner_bench --benchmark_counters_tabular=true

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/make_plan.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/padded/splits.h"
#include "server/planner/request/presets.h"
#include "tests/bench/prefix_batches.h"
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
  // With some spare micro-batches, as when another rank has more.
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

PlanOptions OptionsOf(const char* preset, Effort effort, uint32_t ranks) {
  PlanOptions options;
  options.topology.data_parallel = ranks;
  options.effort = effort;
  options.passes.push_back(PresetPass(preset, options.topology).value());
  options.passes[0].max_tokens_per_microbatch = kBudget;
  return options;
}

// Plans batches in turn. The counters are of the first one: the predicted step time over its proven
// bound, and the ideal step time over it.
void Plan(benchmark::State& state, const PlanOptions& options,
          const std::vector<Manifest>& batches) {
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(MakePlan(batches[next++ % batches.size()], options));
  }
  PerSequence(state);
  const PlanMetrics metrics = MakePlan(batches[0], options)->passes[0].metrics;
  state.counters["step_efficiency"] = metrics.step_efficiency;
  state.counters["above_bound"] = metrics.predicted_step_time / metrics.lower_bound_step_time - 1;
}

// Small plans take turns over several batches; otherwise the processor learns the branches of one.
uint64_t Batches(const benchmark::State& state) { return state.range(0) <= 4096 ? 16 : 1; }

void Plan(benchmark::State& state, const PlanOptions& options) {
  std::vector<std::vector<uint32_t>> lengths;
  for (uint64_t seed = 1; seed <= Batches(state); ++seed) {
    lengths.push_back(testing::MathsLengths(static_cast<size_t>(state.range(0)), seed));
  }
  std::vector<Manifest> batches;
  for (const auto& of_batch : lengths) batches.push_back({.lengths = of_batch});
  Plan(state, options, batches);
}

void PlanBalanced(benchmark::State& state, Effort effort) {
  Plan(state, OptionsOf("balanced", effort, static_cast<uint32_t>(state.range(1))));
}

// Context-parallel groups that differ in size: a rank holds a quarter of the usual budget, and the
// exchange is that of a network.
void PlanDynamic(benchmark::State& state, Effort effort) {
  PlanOptions options = OptionsOf("balanced", effort, static_cast<uint32_t>(state.range(1)));
  options.topology.dynamic_context.emplace();
  options.cost_model.per_microbatch = 1024;
  options.cost_model.exchange = {{.up_to_size = 0, .per_token = 0.065}};
  options.passes[0].max_tokens_per_microbatch = kBudget / 4;
  Plan(state, options);
}

// Sequences that begin alike, of one of PrefixFamilies.
void PlanShared(benchmark::State& state, absl::string_view name, Effort effort) {
  const auto family = std::ranges::find(bench::PrefixFamilies(), name, &bench::PrefixFamily::name);
  std::vector<bench::PrefixBatch> made;
  for (uint64_t seed = 1; seed <= Batches(state); ++seed) {
    made.push_back(
        family->make(static_cast<size_t>(state.range(0)), family->group, family->budget, seed));
  }
  std::vector<Manifest> batches;
  for (const bench::PrefixBatch& batch : made) batches.push_back(batch.manifest());
  PlanOptions options = OptionsOf("balanced", effort, static_cast<uint32_t>(state.range(1)));
  options.passes[0].max_tokens_per_microbatch = family->budget;
  Plan(state, options, batches);
}

// Two in five sequences have an image, and a micro-batch may hold the patches of the largest one.
void PlanLimited(benchmark::State& state, Effort effort) {
  constexpr uint32_t kMostPatches = 16384;
  const auto count = static_cast<size_t>(state.range(0));
  const std::vector<uint32_t> lengths = Lengths(state);
  testing::RandomStream random(7);
  std::vector<double> patches(count, 0);
  for (double& own : patches) {
    if (random.Chance(40)) own = random.Lognormal(1600, 0.9, 256, kMostPatches);
  }
  Manifest batch = {.lengths = lengths};
  batch.loads = {{.name = "patches", .values = patches}};
  PlanOptions options = OptionsOf("balanced", effort, static_cast<uint32_t>(state.range(1)));
  options.passes[0].limits = {{.load = "patches", .max_per_microbatch = kMostPatches}};
  Plan(state, options, {batch});
}

void PlanPreset(benchmark::State& state, const char* preset) {
  Plan(state, OptionsOf(preset, Effort::kDefault, 16));
}

constexpr int64_t kSizes[] = {256, 1024, 16384, 131072, 1 << 20};

void Sizes(benchmark::internal::Benchmark* bench) {
  for (const int64_t size : kSizes) bench->Arg(size);
  bench->Unit(benchmark::kMillisecond);
}

// Numbers of sequences and of data-parallel ranks.
void SizesAndRanks(benchmark::internal::Benchmark* bench) {
  bench->Args({256, 8})->Args({1024, 16})->Args({131072, 256})->Args({1 << 20, 16});
  bench->Unit(benchmark::kMillisecond);
}

void MillionAndRanks(benchmark::internal::Benchmark* bench) {
  bench->Args({1 << 20, 64})->Args({1 << 20, 256})->Unit(benchmark::kMillisecond);
}

void SizesAndPools(benchmark::internal::Benchmark* bench) {
  bench->Args({256, 8})->Args({2048, 64})->Args({131072, 256})->Args({1 << 20, 64});
  bench->Unit(benchmark::kMillisecond);
}

constexpr const char* kStars = "maths, stars of 16";
constexpr const char* kTrees = "searches, trees of 16";

void Thousand(benchmark::internal::Benchmark* bench) {
  bench->Args({1024, 16})->Unit(benchmark::kMillisecond);
}

void ThousandAndMore(benchmark::internal::Benchmark* bench) {
  bench->Args({1024, 16})->Args({100'000, 64})->Unit(benchmark::kMillisecond);
}

void ThousandAndFewRanks(benchmark::internal::Benchmark* bench) {
  bench->Args({1024, 16})->Args({100'000, 8})->Unit(benchmark::kMillisecond);
}

BENCHMARK(LowerBound)->Apply(Sizes);
BENCHMARK(OptimalSplits)->Apply(Sizes);
BENCHMARK_CAPTURE(PlanBalanced, fast, Effort::kFast)->Apply(SizesAndRanks)->Apply(MillionAndRanks);
BENCHMARK_CAPTURE(PlanBalanced, default, Effort::kDefault)->Apply(SizesAndRanks);
BENCHMARK_CAPTURE(PlanBalanced, thorough, Effort::kThorough)->Apply(SizesAndRanks);
BENCHMARK_CAPTURE(PlanDynamic, fast, Effort::kFast)->Apply(SizesAndPools);
BENCHMARK_CAPTURE(PlanDynamic, default, Effort::kDefault)->Apply(SizesAndPools);
BENCHMARK_CAPTURE(PlanDynamic, thorough, Effort::kThorough)->Apply(SizesAndPools);
BENCHMARK_CAPTURE(PlanShared, stars_fast, kStars, Effort::kFast)->Apply(Thousand);
BENCHMARK_CAPTURE(PlanShared, trees_fast, kTrees, Effort::kFast)->Apply(Thousand);
BENCHMARK_CAPTURE(PlanShared, stars_default, kStars, Effort::kDefault)->Apply(ThousandAndMore);
BENCHMARK_CAPTURE(PlanShared, trees_default, kTrees, Effort::kDefault)->Apply(ThousandAndMore);
BENCHMARK_CAPTURE(PlanLimited, fast, Effort::kFast)->Apply(ThousandAndFewRanks);
BENCHMARK_CAPTURE(PlanLimited, default, Effort::kDefault)->Apply(ThousandAndFewRanks);
BENCHMARK_CAPTURE(PlanPreset, nemo_rl_packing, "nemo_rl_packing")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, nemo_rl_dynamic, "nemo_rl_dynamic")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, roll_packing, "roll_packing")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, mindspeed_rl, "mindspeed_rl")->Apply(Sizes);
BENCHMARK_CAPTURE(PlanPreset, verl, "verl")->Apply(Sizes);

}  // namespace
}  // namespace batchplan
