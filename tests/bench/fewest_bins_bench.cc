// How many instances of each classic shape are solved, and the processor time for that. An instance
// is solved if it has as many bins as the best bound that any of the efforts proves. Prints a
// table.
//
//   build/release/bench/fewest_bins_bench [instances of each shape, default 100]

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/packer.h"
#include "server/planner/request/allowance.h"
#include "tests/support/classic_instances.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::ClassicInstance;

struct Measurement {
  uint64_t bins = 0;
  double milliseconds = 0;
};

template <typename Run>
Measurement Measure(Run run) {
  const std::clock_t start = std::clock();
  const uint64_t bins = run();
  return {bins, 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC};
}

struct Row {
  uint64_t bound = 0;
  std::vector<Measurement> methods;
};

// Compares first fit decreasing and the efforts.
Row Compare(const ClassicInstance& instance) {
  const PackItems items{.lengths = instance.lengths};
  const BinLimits limits{.capacity = instance.capacity};
  Row row;
  row.methods.push_back(
      Measure([&] { return Pack(Packer::kFirstFitDecreasing, items, limits, 0).size(); }));
  for (const Effort effort : {Effort::kFast, Effort::kDefault, Effort::kThorough}) {
    row.methods.push_back(Measure([&] {
      const FewestBins fewest = PackFewest(items, limits, 0, effort);
      row.bound = std::max(row.bound, fewest.bound);
      return fewest.bins.size();
    }));
  }
  return row;
}

void PrintHead(const std::string& first) {
  std::printf("\n| %s | FFD | ms | kFast | ms | kDefault | ms | kThorough | ms |\n", first.c_str());
  std::printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
}

void PrintShape(const testing::ClassicShape& shape, uint64_t instances) {
  std::vector<uint64_t> solved(4, 0);
  std::vector<double> milliseconds(4, 0);
  for (uint64_t seed = 1; seed <= instances; ++seed) {
    const Row row = Compare(shape.make(seed));
    for (size_t i = 0; i < 4; ++i) {
      solved[i] += row.methods[i].bins == row.bound;
      milliseconds[i] += row.methods[i].milliseconds;
    }
  }
  std::printf("| %s |", shape.name.c_str());
  for (size_t i = 0; i < 4; ++i) {
    std::printf(" %d | %.2f |", static_cast<int>(solved[i]),
                milliseconds[i] / static_cast<double>(instances));
  }
  std::printf("\n");
  std::fflush(stdout);
}

void PrintLarge(const std::string& name, const ClassicInstance& instance) {
  const Row row = Compare(instance);
  std::printf("| %s |", name.c_str());
  for (const Measurement& figures : row.methods) {
    std::printf(" %llu (%+.2f %%) | %.1f |", static_cast<unsigned long long>(figures.bins),
                100.0 * static_cast<double>(figures.bins) / static_cast<double>(row.bound) - 100.0,
                figures.milliseconds);
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace batchplan

int main(int argc, char** argv) {
  using batchplan::testing::TripletLengths;
  using batchplan::testing::UniformLengths;
  constexpr uint32_t kCapacity = 32768;
  const uint64_t instances = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100;
  batchplan::PrintHead("solved of " + std::to_string(instances));
  for (const auto& shape : batchplan::testing::ClassicShapes()) {
    batchplan::PrintShape(shape, instances);
  }
  batchplan::PrintHead("bins (over the bound)");
  for (const size_t count : {size_t{2046}, size_t{1'000'002}}) {
    const std::string items = ", " + std::to_string(count);
    batchplan::PrintLarge("C/4 .. C/2" + items, {UniformLengths(count, 1, kCapacity), kCapacity});
    batchplan::PrintLarge("triplets" + items, {TripletLengths(count / 3, 1, kCapacity), kCapacity});
  }
  return 0;
}
