// How even ranks and slots come out, beside the greedy and the differencing rule, and how long that
// takes. `excess` is the largest sum over its proven bound, less one; `efficiency` the mean over
// the cost of the slots.
//
//   build/release/bench/balance_bench --benchmark_counters_tabular=true

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "server/planner/balance/accumulated.h"
#include "server/planner/packing/packer.h"
#include "server/planner/padded/level_split.h"
#include "server/planner/padded/slots.h"
#include "server/planner/padded/sorted_scan.h"
#include "server/planner/partition/even_parts.h"
#include "server/planner/partition/karmarkar_karp.h"
#include "server/planner/partition/longest_first.h"
#include "server/planner/partition/part_bound.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

constexpr uint32_t kBudget = 16384;

// Answers to school mathematics, range(0) of them, for range(1) ranks.
struct Batch {
  explicit Batch(const benchmark::State& state)
      : lengths(testing::MathsLengths(static_cast<size_t>(state.range(0)), 1)),
        ranks(static_cast<uint32_t>(state.range(1))) {
    std::sort(lengths.begin(), lengths.end());
    for (const uint64_t length : lengths) costs.push_back(24576 * length + length * length);
  }

  uint64_t Bound(uint64_t least_each) const {
    std::vector<uint64_t> descending(costs.rbegin(), costs.rend());
    return LargestSumBound(descending, ranks, least_each);
  }

  double Excess(const std::vector<uint32_t>& rank_of, uint64_t least_each) const {
    std::vector<uint64_t> sums(ranks, 0);
    for (size_t i = 0; i < costs.size(); ++i) sums[rank_of[i]] += costs[i];
    return static_cast<double>(*std::max_element(sums.begin(), sums.end())) /
               static_cast<double>(Bound(least_each)) -
           1;
  }

  std::vector<uint32_t> lengths;
  std::vector<uint64_t> costs;
  uint32_t ranks;
};

template <typename Divide>
void DivideFreely(benchmark::State& state, Divide divide) {
  const Batch batch(state);
  std::vector<uint32_t> rank_of;
  for (auto _ : state) rank_of = divide(batch.costs, batch.ranks);
  state.counters["excess"] = batch.Excess(rank_of, 0);
}

template <typename Divide>
void DivideEqually(benchmark::State& state, Divide divide) {
  const Batch batch(state);
  std::vector<uint32_t> rank_of;
  for (auto _ : state) rank_of = divide(batch.costs, batch.ranks);
  state.counters["excess"] = batch.Excess(rank_of, batch.costs.size() / batch.ranks);
}

void Accumulated(benchmark::State& state, Effort effort) {
  const Batch batch(state);
  const PackItems items = {.lengths = batch.lengths, .loads = batch.costs};
  const BinLimits limits = {.capacity = kBudget};
  const Bins start = Pack(Packer::kBestFitDecreasing, items, limits, 0);
  const size_t slots = (start.size() + batch.ranks - 1) / batch.ranks;
  Bins bins;
  for (auto _ : state) {
    bins = BalanceAccumulated(items, limits, batch.ranks, slots, start, effort);
  }
  std::vector<uint32_t> rank_of(batch.costs.size());
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    for (const uint32_t item : bins[bin]) rank_of[item] = static_cast<uint32_t>(bin / slots);
  }
  state.counters["excess"] = batch.Excess(rank_of, slots);
  state.counters["slots"] = static_cast<double>(slots);
}

void PaddedSlots(benchmark::State& state, uint64_t steps) {
  const Batch batch(state);
  const PaddedItems items = {.widths = batch.lengths};
  const PaddedLimits limits = {.tokens = kBudget};
  const size_t fewest = SortedScan(items, limits).size() - 1;
  const size_t runs = (fewest + batch.ranks - 1) / batch.ranks * batch.ranks;
  Cuts cuts;
  for (auto _ : state) {
    cuts = LevelSplit(items, batch.costs, limits, runs);
    cuts = ImproveSlots(items, batch.costs, limits, batch.ranks, std::move(cuts), steps);
  }
  double total = 0;
  for (const uint64_t cost : batch.costs) total += static_cast<double>(cost);
  state.counters["efficiency"] =
      total / batch.ranks /
      static_cast<double>(LockstepCost(RunCosts(items, batch.costs, cuts), batch.ranks));
}

std::vector<uint32_t> LongestFirstFreely(const std::vector<uint64_t>& costs, uint32_t ranks) {
  return LongestFirst(costs, ranks);
}

std::vector<uint32_t> LongestFirstEqually(const std::vector<uint64_t>& costs, uint32_t ranks) {
  return LongestFirst(costs, ranks, costs.size() / ranks);
}

std::vector<uint32_t> DifferencingFreely(const std::vector<uint64_t>& costs, uint32_t ranks) {
  return KarmarkarKarp(costs, ranks);
}

std::vector<uint32_t> DifferencingEqually(const std::vector<uint64_t>& costs, uint32_t ranks) {
  return KarmarkarKarpEqual(costs, ranks);
}

template <bool kEqualCounts, Effort kEffort>
std::vector<uint32_t> Evenly(const std::vector<uint64_t>& costs, uint32_t ranks) {
  return EvenParts(costs, ranks, {.equal_counts = kEqualCounts, .effort = kEffort});
}

void Batches(benchmark::internal::Benchmark* bench) {
  bench->Args({256, 8})->Args({1024, 16})->Args({131072, 256})->Unit(benchmark::kMillisecond);
}

void BatchesAndAMillion(benchmark::internal::Benchmark* bench) {
  Batches(bench);
  bench->Args({1 << 20, 16});
}

BENCHMARK_CAPTURE(DivideFreely, longest_first, LongestFirstFreely)->Apply(BatchesAndAMillion);
BENCHMARK_CAPTURE(DivideFreely, karmarkar_karp, DifferencingFreely)->Apply(Batches);
BENCHMARK_CAPTURE(DivideFreely, even_fast, Evenly<false, Effort::kFast>)->Apply(BatchesAndAMillion);
BENCHMARK_CAPTURE(DivideFreely, even_default, Evenly<false, Effort::kDefault>)
    ->Apply(BatchesAndAMillion);
BENCHMARK_CAPTURE(DivideEqually, longest_first, LongestFirstEqually)->Apply(BatchesAndAMillion);
BENCHMARK_CAPTURE(DivideEqually, karmarkar_karp, DifferencingEqually)->Apply(Batches);
BENCHMARK_CAPTURE(DivideEqually, even_fast, Evenly<true, Effort::kFast>)->Apply(BatchesAndAMillion);
BENCHMARK_CAPTURE(DivideEqually, even_default, Evenly<true, Effort::kDefault>)
    ->Apply(BatchesAndAMillion);
BENCHMARK_CAPTURE(Accumulated, fast, Effort::kFast)->Apply(Batches);
BENCHMARK_CAPTURE(Accumulated, default, Effort::kDefault)->Apply(Batches);
BENCHMARK_CAPTURE(PaddedSlots, level, 0)->Apply(Batches);
BENCHMARK_CAPTURE(PaddedSlots, improved, 1'000'000)->Apply(Batches);

}  // namespace
}  // namespace batchplan
