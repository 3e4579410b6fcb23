// Packers over lengths like those of training batches. std::sort of the lengths is the yardstick,
// which makes `of_sort`, a packer's time over the sort's, independent of the machine; both are
// timed in turn. As in a server, every run has other lengths, caches that something else has used
// since, and memory left by earlier plans (KeepFreedMemory).
//
//   build/release/bench/packing_bench --benchmark_counters_tabular=true

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/planner/packing/bins.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/packing/packer.h"
#include "server/service/freed_memory.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

constexpr int64_t kSizes[] = {2048, 16384, 131072, 1 << 20};

std::vector<uint32_t> HalfToQuarter(size_t count, uint64_t seed) {
  return testing::UniformLengths(count, seed, 16384);
}

struct Family {
  const char* name;
  std::vector<uint32_t> (*lengths)(size_t count, uint64_t seed);
  uint32_t capacity;
};

constexpr Family kFamilies[] = {
    {"maths", testing::MathsLengths, 16384},
    {"zipf", testing::ZipfLengths, 8192},
    {"uniform", HalfToQuarter, 16384},
    {"agentic", testing::AgenticLengths, 32768},
};

struct NamedPacker {
  const char* name;
  Packer packer;
};

constexpr NamedPacker kPackers[] = {
    {"concatenative", Packer::kConcatenative},
    {"first_fit_decreasing", Packer::kFirstFitDecreasing},
    {"first_fit_shuffle", Packer::kFirstFitShuffle},
    {"modified_first_fit_decreasing", Packer::kModifiedFirstFitDecreasing},
    {"best_fit_decreasing", Packer::kBestFitDecreasing},
    {"karmarkar_karp", Packer::kKarmarkarKarp},
};

// The processor time of `work` on the calling thread.
double Seconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

std::vector<std::vector<uint32_t>> Batches(const Family& family, size_t count) {
  const size_t batches = std::clamp<size_t>((size_t{1} << 18) / count, 1, 64);
  std::vector<std::vector<uint32_t>> lengths;
  for (uint64_t seed = 1; seed <= batches; ++seed) lengths.push_back(family.lengths(count, seed));
  return lengths;
}

void PackLengths(benchmark::State& state, const Family& family, Packer packer) {
  const std::vector<std::vector<uint32_t>> batches =
      Batches(family, static_cast<size_t>(state.range(0)));
  const BinLimits limits{.capacity = family.capacity};
  double packing = 0;
  double sorting = 0;
  double bins = 0;
  double bound = 0;
  size_t next = 0;
  for (auto _ : state) {
    const std::vector<uint32_t>& lengths = batches[next++ % batches.size()];
    std::vector<uint32_t> sorted = lengths;
    sorting += Seconds([&] { std::sort(sorted.begin(), sorted.end(), std::greater<>()); });
    benchmark::DoNotOptimize(sorted.data());
    Bins packed;
    const double seconds = Seconds([&] { packed = Pack(packer, {.lengths = lengths}, limits, 1); });
    packing += seconds;
    bins += static_cast<double>(packed.size());
    bound += static_cast<double>(LowerBoundBins({.lengths = lengths}, limits));
    state.SetIterationTime(seconds);
  }
  state.counters["per_sequence"] = benchmark::Counter(
      static_cast<double>(state.range(0)),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["of_sort"] = packing / sorting;
  state.counters["of_bound"] = bins / bound;
}

const bool kRegistered = [] {
  KeepFreedMemory();
  for (const NamedPacker& packer : kPackers) {
    for (const Family& family : kFamilies) {
      const std::string name = absl::StrCat("PackLengths/", packer.name, "/", family.name);
      auto* bench = benchmark::RegisterBenchmark(name.c_str(), PackLengths, family, packer.packer);
      for (const int64_t size : kSizes) bench->Arg(size);
      bench->Unit(benchmark::kMillisecond)->UseManualTime();
    }
  }
  return true;
}();

}  // namespace
}  // namespace batchplan
