// Compares batches chosen from waiting groups with first in, first out. Pools have 96 groups of 8,
// of which 64 are taken; in streams 64 groups arrive and 64 are taken at each of 40 steps.
//
//   build/release/bench/selection_bench [SEEDS [FIRST_SEED]]
//
// Gains are ratios of first in, first out to ours: of predicted over ideal step time; for streams
// also of the total predicted step time, although the two have not trained quite the same groups at
// the end. For streams, the mean trained length over the mean arrived length is shown too: its
// largest deviation over all steps and over any ten. Also the wall time of a plan.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "server/planner/make_plan.h"
#include "server/planner/request/presets.h"
#include "tests/bench/geometric_mean.h"
#include "tests/bench/length_family.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

using bench::Family;
using bench::GeometricMean;

constexpr size_t kGroup = 8;
constexpr size_t kWaiting = 96;
constexpr uint32_t kTaken = 64;
constexpr uint32_t kOvertaking = 16;
constexpr size_t kSteps = 40;
constexpr uint32_t kMaxAge = 4;

constexpr Family kFamilies[] = {
    {"long_cot", testing::LongCotLengths, 0, 65536, 0},
    {"maths", testing::MathsLengths, 0, 16384, 0},
    {"agentic", testing::AgenticLengths, 0, 32768, 0},
};

struct Pool {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> groups;
  std::vector<uint32_t> ages;
};

PlanOptions Options(const Family& family, uint32_t ranks, uint32_t taken, uint32_t overtaking) {
  PlanOptions options;
  options.topology.data_parallel = ranks;
  options.passes.push_back(PresetPass("balanced", options.topology).value());
  options.passes[0].max_tokens_per_microbatch = family.budget;
  options.selection = {.groups = taken, .max_age = kMaxAge, .max_overtaking = overtaking};
  return options;
}

struct Timed {
  Plan plan;
  double milliseconds = 0;
};

Timed PlanOf(const Pool& pool, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Timed timed;
  timed.plan =
      MakePlan({.lengths = pool.lengths, .group_ids = pool.groups, .ages = pool.ages}, options)
          .value();
  timed.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return timed;
}

double RatioOf(const Plan& plan) {
  return plan.passes[0].metrics.predicted_step_time / plan.passes[0].metrics.ideal_step_time;
}

Pool PoolOf(const Family& family, size_t groups, uint64_t seed) {
  Pool pool;
  pool.lengths = family.lengths(groups * kGroup, seed);
  for (size_t i = 0; i < pool.lengths.size(); ++i) {
    pool.groups.push_back(static_cast<uint32_t>(i / kGroup));
  }
  pool.ages.assign(pool.lengths.size(), 0);
  return pool;
}

// Sums over the steps of a stream.
struct Stream {
  double time = 0;
  double ideal = 0;
  std::vector<double> lengths;  // mean of what was trained
  double mean_length = 0;
  uint32_t largest_age = 0;
};

Stream Run(const Family& family, uint32_t ranks, uint32_t overtaking, uint64_t seed) {
  const Pool all = PoolOf(family, kWaiting + kSteps * kTaken, seed);
  const PlanOptions options = Options(family, ranks, kTaken, overtaking);
  Stream stream;
  Pool waiting;
  size_t arrived = 0;
  for (size_t step = 0; step < kSteps; ++step) {
    const size_t until = (kWaiting + step * kTaken) * kGroup;
    for (; arrived < until; ++arrived) {
      waiting.lengths.push_back(all.lengths[arrived]);
      waiting.groups.push_back(all.groups[arrived]);
      waiting.ages.push_back(0);
    }
    const Plan plan = PlanOf(waiting, options).plan;
    const PlanMetrics& metrics = plan.passes[0].metrics;
    stream.time += metrics.predicted_step_time;
    stream.ideal += metrics.ideal_step_time;
    stream.lengths.push_back(metrics.mean_length_taken);
    stream.largest_age = std::max(stream.largest_age, metrics.largest_age);
    Pool left;
    for (const uint32_t i : plan.deferred) {
      left.lengths.push_back(waiting.lengths[i]);
      left.groups.push_back(waiting.groups[i]);
      left.ages.push_back(waiting.ages[i] + 1);
    }
    waiting = std::move(left);
  }
  stream.mean_length =
      static_cast<double>(std::accumulate(
          all.lengths.begin(), all.lengths.begin() + static_cast<std::ptrdiff_t>(arrived),
          uint64_t{0})) /
      static_cast<double>(arrived);
  return stream;
}

double FurthestOf(const Stream& stream, size_t steps) {
  double furthest = 0;
  for (size_t first = 0; first + steps <= stream.lengths.size(); ++first) {
    const auto begin = stream.lengths.begin() + static_cast<std::ptrdiff_t>(first);
    const double mean = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(steps), 0.0) /
                        static_cast<double>(steps);
    furthest = std::max(furthest, std::abs(mean / stream.mean_length - 1));
  }
  return furthest;
}

void PrintPools(uint64_t seeds, uint64_t first_seed) {
  std::printf(
      "| pools | ranks | first in, first out | ours | gain | least | ms |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n");
  GeometricMean all;
  for (const Family& family : kFamilies) {
    for (const uint32_t ranks : {8, 16, 32, 64}) {
      GeometricMean fifo;
      GeometricMean ours;
      GeometricMean gain;
      double milliseconds = 0;
      for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
        const Pool pool = PoolOf(family, kWaiting, seed);
        const double first = RatioOf(PlanOf(pool, Options(family, ranks, kTaken, 0)).plan);
        const Timed chosen = PlanOf(pool, Options(family, ranks, kTaken, kOvertaking));
        fifo.Add(first);
        ours.Add(RatioOf(chosen.plan));
        gain.Add(first / RatioOf(chosen.plan));
        all.Add(first / RatioOf(chosen.plan));
        milliseconds += chosen.milliseconds;
      }
      std::printf("| %s | %u | %.4f | %.4f | %.4f | %.4f | %.1f |\n", family.name.data(), ranks,
                  fifo.value(), ours.value(), gain.value(), gain.least(),
                  milliseconds / static_cast<double>(seeds));
    }
  }
  std::printf("mean %.4f, least %.4f\n\n", all.value(), all.least());
}

void PrintStreams(uint64_t seeds, uint64_t first_seed) {
  std::printf(
      "| streams | ranks | gain, total time | over ideal | least | length, all steps | any ten | "
      "of first in, first out | largest age |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const Family& family : kFamilies) {
    for (const uint32_t ranks : {8, 16, 32, 64}) {
      GeometricMean gain;
      GeometricMean over_ideal;
      double all = 0;
      double ten = 0;
      double ten_first = 0;
      uint32_t age = 0;
      for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
        const Stream first = Run(family, ranks, 0, seed);
        const Stream ours = Run(family, ranks, kOvertaking, seed);
        gain.Add(first.time / ours.time);
        over_ideal.Add(first.time / first.ideal / (ours.time / ours.ideal));
        all = std::max(all, FurthestOf(ours, kSteps));
        ten = std::max(ten, FurthestOf(ours, 10));
        ten_first = std::max(ten_first, FurthestOf(first, 10));
        age = std::max(age, ours.largest_age);
      }
      std::printf("| %s | %u | %.4f | %.4f | %.4f | %.2f %% | %.2f %% | %.2f %% | %u |\n",
                  family.name.data(), ranks, gain.value(), over_ideal.value(), over_ideal.least(),
                  100 * all, 100 * ten, 100 * ten_first, age);
    }
  }
}

void PrintLarge() {
  std::printf(
      "\n| 10,000 sequences | ranks | first in, first out, ms | ours, ms |\n"
      "|---|---:|---:|---:|\n");
  for (const Family& family : kFamilies) {
    for (const uint32_t ranks : {8, 64}) {
      const Pool pool = PoolOf(family, 1250, 7);
      std::printf("| %s | %u |", family.name.data(), ranks);
      for (const uint32_t overtaking : {0U, kOvertaking}) {
        double least = PlanOf(pool, Options(family, ranks, 833, overtaking)).milliseconds;
        for (int i = 0; i < 2; ++i) {
          const Timed again = PlanOf(pool, Options(family, ranks, 833, overtaking));
          least = std::min(least, again.milliseconds);
        }
        std::printf(" %.1f |", least);
      }
      std::printf("\n");
    }
  }
}

void PrintDelays(uint64_t seeds, uint64_t first_seed) {
  std::printf(
      "\n| 4 mini-batches of 512 | ranks | max_delay | shorter by | least | mean delay | "
      "moved | ms |\n|---|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const Family& family : kFamilies) {
    for (const uint32_t ranks : {16, 64}) {
      for (const uint32_t delay : {1, 3}) {
        GeometricMean gain;
        double moved = 0;
        double mean_delay = 0;
        double milliseconds = 0;
        for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
          Pool pool;
          pool.lengths = family.lengths(2048, seed);
          PlanOptions options = Options(family, ranks, 0, 0);
          options.selection.reset();
          options.mini_batches.size = 512;
          const Timed without = PlanOf(pool, options);
          options.mini_batches.max_delay = delay;
          const Timed with = PlanOf(pool, options);
          const PlanMetrics& metrics = with.plan.passes[0].metrics;
          gain.Add(without.plan.passes[0].metrics.predicted_step_time /
                   metrics.predicted_step_time);
          moved += metrics.moved_share / static_cast<double>(seeds);
          mean_delay += metrics.mean_delay / static_cast<double>(seeds);
          milliseconds += with.milliseconds / static_cast<double>(seeds);
        }
        std::printf("| %s | %u | %u | %.3f | %.3f | %.2f | %.1f %% | %.1f |\n", family.name.data(),
                    ranks, delay, gain.value(), gain.least(), mean_delay, 100 * moved,
                    milliseconds);
      }
    }
  }
}

}  // namespace
}  // namespace batchplan

int main(int argc, char** argv) {
  const uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 3;
  const uint64_t first_seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 31000;
  batchplan::PrintPools(seeds, first_seed);
  batchplan::PrintStreams(seeds, first_seed);
  batchplan::PrintLarge();
  batchplan::PrintDelays(seeds, first_seed);
}
