// Partitions of the costs of a batch into parts of even sums.
//
//   build/release/bench/partition_bench --benchmark_counters_tabular=true

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "server/planner/partition/karmarkar_karp.h"
#include "server/planner/partition/longest_first.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

std::vector<uint64_t> Loads(size_t count) {
  std::vector<uint64_t> loads;
  for (const uint64_t length : testing::MathsLengths(count, 1)) {
    loads.push_back(24576 * length + length * length);
  }
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
  const std::vector<uint64_t> loads = Loads(static_cast<size_t>(state.range(0)));
  const auto parts = static_cast<uint32_t>(state.range(1));
  std::vector<uint32_t> part_of;
  for (auto _ : state) {
    part_of = divide(loads, parts);
    benchmark::DoNotOptimize(part_of.data());
  }
  state.counters["per_sequence"] = benchmark::Counter(
      static_cast<double>(state.range(0)),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["imbalance"] = Imbalance(loads, part_of, parts);
}

void Parts(benchmark::internal::Benchmark* bench) {
  // What one rank's share is divided into, and what a batch is.
  bench->Args({512, 32});
  for (const int64_t parts : {64, 1024}) {
    for (const int64_t size : {16384, 131072}) bench->Args({size, parts});
  }
  bench->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(DivideLoads, karmarkar_karp, [](const auto& loads, uint32_t parts) {
  return KarmarkarKarp(loads, parts);
}) -> Apply(Parts);
BENCHMARK_CAPTURE(DivideLoads, karmarkar_karp_equal, [](const auto& loads, uint32_t parts) {
  return KarmarkarKarpEqual(loads, parts);
}) -> Apply(Parts);
BENCHMARK_CAPTURE(DivideLoads, longest_first, [](const auto& loads, uint32_t parts) {
  return LongestFirst(loads, parts);
}) -> Apply(Parts);

}  // namespace
}  // namespace batchplan
