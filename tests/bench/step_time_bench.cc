// Predicted step time of every method, relative to a bound that no plan can beat: the presets
// through MakePlan, and three systems in use as their code does it today.
//
//   build/release/bench/step_time_bench [--seeds N] [--family NAME]
//       [--pp LIST [--vpp LIST] | --dynamic_cp LIST [--per_microbatch TOKENS] | --one_size |
//        --shared_prefixes | --multimodal [--dp LIST] [--sequences N] [--effort NAME]]
//
// --pp: pipelines with these numbers of stages (pipeline_step_times.h). --dynamic_cp: pools of
// these numbers of ranks with context-parallel groups that differ in size (dynamic_step_times.h).
// --one_size: such groups compared with ranks (one_size_step_times.h). --shared_prefixes: batches
// whose sequences begin alike, with families of their own (prefix_step_times.h). --multimodal:
// batches with images (load_step_times.h), on these numbers of ranks, with N sequences, at this
// effort. Otherwise one Markdown table for each family and synchronization, over the seeds. A plan
// with micro-batches over the token budget may be below the bound, which holds only within the
// budget.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/planner/balance/step_time_bound.h"
#include "server/planner/make_plan.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/request/presets.h"
#include "tests/bench/dynamic_step_times.h"
#include "tests/bench/geometric_mean.h"
#include "tests/bench/length_family.h"
#include "tests/bench/load_batches.h"
#include "tests/bench/load_step_times.h"
#include "tests/bench/one_size_step_times.h"
#include "tests/bench/pipeline_step_times.h"
#include "tests/bench/prefix_batches.h"
#include "tests/bench/prefix_step_times.h"
#include "tests/bench/rank_microbatches.h"
#include "tests/support/generators.h"
#include "tests/support/reference_systems.h"

namespace batchplan {
namespace {

using bench::Family;
using testing::RankMicrobatches;

constexpr Family kFamilies[] = {
    {"maths", testing::MathsLengths, 1024, 16384, 16},
    {"long_cot", testing::LongCotLengths, 2048, 65536, 64},
    {"agentic", testing::AgenticLengths, 1024, 32768, 16},
    {"zipf", testing::ZipfLengths, 2048, 8192, 8},
    {"small_maths", testing::MathsLengths, 256, 16384, 8},
    {"small_zipf", testing::ZipfLengths, 256, 8192, 8},
};

// In units of 1/24576 of a token, in which the default cost model has whole numbers.
uint64_t CostOf(uint64_t length) { return 24576 * length + length * length; }

struct Batch {
  std::vector<uint32_t> lengths;
  uint64_t total_cost = 0;
  uint64_t fewest_microbatches = 0;
  uint64_t bound = 0;  // on the step time
};

Batch MakeBatch(const Family& family, Synchronization synchronization, uint64_t seed) {
  Batch batch;
  batch.lengths = family.lengths(family.sequences, seed);
  std::vector<uint64_t> costs;
  for (const uint32_t length : batch.lengths) costs.push_back(CostOf(length));
  batch.total_cost = std::accumulate(costs.begin(), costs.end(), uint64_t{0});
  const PackItems items = {.lengths = batch.lengths, .loads = costs};
  const BinLimits limits = {.capacity = family.budget};
  const uint64_t bins = LowerBoundBins(items, limits);
  batch.fewest_microbatches = (bins + family.ranks - 1) / family.ranks * family.ranks;
  batch.bound = synchronization == Synchronization::kLockstep
                    ? LockstepBound(items, limits, family.ranks)
                    : AccumulatedBound(items, family.ranks);
  return batch;
}

// One plan's figures.
struct Result {
  uint64_t step_time = 0;
  uint64_t microbatches = 0;
  uint64_t over_budget = 0;  // micro-batches
  double milliseconds = 0;
};

Result Evaluate(const RankMicrobatches& plan, const Batch& batch, uint32_t budget,
                Synchronization synchronization) {
  Result result;
  std::vector<uint64_t> slots(plan[0].size(), 0);
  uint64_t busiest = 0;
  for (const auto& rank : plan) {
    uint64_t rank_cost = 0;
    for (size_t slot = 0; slot < rank.size(); ++slot) {
      uint64_t tokens = 0;
      uint64_t cost = 0;
      for (const uint32_t item : rank[slot]) {
        tokens += batch.lengths[item];
        cost += CostOf(batch.lengths[item]);
      }
      ++result.microbatches;
      result.over_budget += tokens > budget;
      slots[slot] = std::max(slots[slot], cost);
      rank_cost += cost;
    }
    busiest = std::max(busiest, rank_cost);
  }
  result.step_time = synchronization == Synchronization::kLockstep
                         ? std::accumulate(slots.begin(), slots.end(), uint64_t{0})
                         : busiest;
  return result;
}

// Plans a batch.
struct Method {
  std::string name;
  std::function<RankMicrobatches(const Family&, const Batch&, Synchronization)> plan;
};

Method PresetMethod(absl::string_view preset, Effort effort, std::string name) {
  return {std::move(name), [preset, effort](const Family& family, const Batch& batch,
                                            Synchronization synchronization) {
            PlanOptions options;
            options.topology.data_parallel = family.ranks;
            options.synchronization = synchronization;
            options.effort = effort;
            options.passes.push_back(PresetPass(preset, options.topology).value());
            options.passes[0].max_tokens_per_microbatch = family.budget;
            const absl::StatusOr<Plan> plan = MakePlan({.lengths = batch.lengths}, options);
            return bench::MicrobatchesOf(plan.value().passes[0], family.ranks);
          }};
}

Method SystemMethod(std::string name,
                    RankMicrobatches (*plan)(std::span<const uint32_t>, uint32_t, uint32_t)) {
  return {std::move(name), [plan](const Family& family, const Batch& batch, Synchronization) {
            return plan(batch.lengths, family.budget, family.ranks);
          }};
}

constexpr absl::string_view kOurs = "balanced, default";
constexpr absl::string_view kSystems[] = {"NeMo-RL's code", "ROLL's code", "verl's code"};

std::vector<Method> Methods() {
  std::vector<Method> methods = {
      PresetMethod("balanced", Effort::kFast, "balanced, fast"),
      PresetMethod("balanced", Effort::kDefault, std::string(kOurs)),
      PresetMethod("balanced", Effort::kThorough, "balanced, thorough"),
  };
  for (const absl::string_view preset : kPresetNames) {
    // megatron_dynamic_cp needs a pool of ranks.
    if (preset == "balanced" || preset == "megatron_dynamic_cp") continue;
    if (PresetPass(preset, {})->layout == Layout::kPacked) {
      methods.push_back(PresetMethod(preset, Effort::kDefault, std::string(preset)));
    }
  }
  methods.push_back(SystemMethod(std::string(kSystems[0]), testing::NemoRlPlan));
  methods.push_back(SystemMethod(std::string(kSystems[1]), testing::RollPlan));
  methods.push_back(SystemMethod(std::string(kSystems[2]), testing::VerlPlan));
  return methods;
}

// Runs one method, with a result for each batch.
std::vector<Result> Run(const Method& method, const Family& family, Synchronization synchronization,
                        const std::vector<Batch>& batches) {
  std::vector<Result> results;
  for (const Batch& batch : batches) {
    const auto start = std::chrono::steady_clock::now();
    const RankMicrobatches plan = method.plan(family, batch, synchronization);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    results.push_back(Evaluate(plan, batch, family.budget, synchronization));
    results.back().milliseconds = time.count();
  }
  return results;
}

void PrintRow(absl::string_view name, const Family& family, const std::vector<Batch>& batches,
              const std::vector<Result>& results) {
  double worst = 0;
  double mean = 0;
  double efficiency = 0;
  double microbatches = 0;
  double certified = 0;
  double over_budget = 0;
  double milliseconds = 0;
  const auto count = static_cast<double>(batches.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    const auto step_time = static_cast<double>(results[i].step_time);
    const double relative = step_time / static_cast<double>(batches[i].bound);
    worst = std::max(worst, relative);
    mean += relative / count;
    efficiency += static_cast<double>(batches[i].total_cost) / family.ranks / step_time / count;
    microbatches += static_cast<double>(results[i].microbatches) / count;
    if (results[i].over_budget == 0 && results[i].microbatches == batches[i].fewest_microbatches) {
      certified += 1 / count;
    }
    over_budget += static_cast<double>(results[i].over_budget) /
                   static_cast<double>(results[i].microbatches) / count;
    milliseconds += results[i].milliseconds / count;
  }
  std::printf("| %-18.*s | %.5f | %.5f | %.4f | %7.1f | %4.0f %% | %5.1f %% | %8.2f |\n",
              static_cast<int>(name.size()), name.data(), worst, mean, efficiency, microbatches,
              100 * certified, 100 * over_budget, milliseconds);
}

// By how much our plans are faster.
struct Speedups {
  std::string title;
  bench::GeometricMean over[std::size(kSystems)];
};

// Also adds the family's figures to `overall`.
Speedups RunFamily(const Family& family, Synchronization synchronization, uint64_t seeds,
                   Speedups& overall) {
  Speedups speedups;
  speedups.title = absl::StrCat(
      family.name, synchronization == Synchronization::kLockstep ? ", lockstep" : ", accumulated");
  std::vector<Batch> batches;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    batches.push_back(MakeBatch(family, synchronization, seed));
  }
  std::printf("\n### %s\n%zu sequences, %u tokens, %u ranks, %zu seeds\n", speedups.title.c_str(),
              family.sequences, family.budget, family.ranks, batches.size());
  std::printf(
      "| method | time / bound, worst | mean | step efficiency | micro-batches | certified "
      "fewest | over budget | ms |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  std::vector<Result> ours;
  for (const Method& method : Methods()) {
    const std::vector<Result> results = Run(method, family, synchronization, batches);
    PrintRow(method.name, family, batches, results);
    if (method.name == kOurs) ours = results;
    for (size_t system = 0; system < std::size(kSystems); ++system) {
      if (method.name != kSystems[system]) continue;
      for (size_t i = 0; i < batches.size(); ++i) {
        const double speedup =
            static_cast<double>(results[i].step_time) / static_cast<double>(ours[i].step_time);
        speedups.over[system].Add(speedup);
        overall.over[system].Add(speedup);
      }
    }
  }
  std::fflush(stdout);
  return speedups;
}

void PrintSpeedups(const std::vector<Speedups>& rows) {
  std::printf("\n### Step time over that of \"%.*s\", geometric means\n| batches |",
              static_cast<int>(kOurs.size()), kOurs.data());
  for (const absl::string_view system : kSystems) {
    std::printf(" %.*s |", static_cast<int>(system.size()), system.data());
  }
  std::printf("\n| --- | --- | --- | --- |\n");
  for (const Speedups& row : rows) {
    std::printf("| %s |", row.title.c_str());
    for (const bench::GeometricMean& mean : row.over) bench::PrintMean(mean, 4);
    std::printf("\n");
  }
}

// The numbers in a list such as "4,8"; empty if it is no list of numbers.
std::vector<uint32_t> NumbersOf(absl::string_view list) {
  std::vector<uint32_t> numbers;
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(part, &number) || number == 0) return {};
    numbers.push_back(number);
  }
  return numbers;
}

// The effort with the contract's name in lower case; none for other names.
std::optional<Effort> EffortOf(absl::string_view name) {
  if (name == "fast") return Effort::kFast;
  if (name == "default") return Effort::kDefault;
  if (name == "thorough") return Effort::kThorough;
  return std::nullopt;
}

template <typename Families>
void PrintNames(const char* title, const Families& families) {
  std::fprintf(stderr, "\n%s:", title);
  for (const auto& family : families) std::fprintf(stderr, " \"%s\"", family.name.data());
}

void PrintUsage(const char* program) {
  std::fprintf(stderr,
               "usage: %s [--seeds N] [--family NAME] [--pp LIST [--vpp LIST] | --dynamic_cp LIST "
               "[--per_microbatch TOKENS] | --one_size | --shared_prefixes | --multimodal "
               "[--dp LIST] [--sequences N] [--effort NAME]]",
               program);
  PrintNames("families", kFamilies);
  PrintNames("of --shared_prefixes, or what they begin with", bench::PrefixFamilies());
  PrintNames("of --multimodal, beside the families, or what they begin with",
             bench::LoadFamilies());
  std::fprintf(stderr, "\n");
}

int Main(int argc, char** argv) {
  uint64_t seeds = 5;
  std::string only;
  std::vector<uint32_t> stages;
  std::vector<uint32_t> virtual_stages = {1};
  std::vector<uint32_t> pools;
  double per_microbatch = 0;
  bool one_size = false;
  bool shared_prefixes = false;
  bool multimodal = false;
  bench::LoadRuns loads = {.text = kFamilies};
  for (int i = 1; i < argc; ++i) {
    const absl::string_view flag = argv[i];
    const bool last = i + 1 == argc;
    if (flag == "--seeds" && !last && absl::SimpleAtoi(argv[i + 1], &seeds) && seeds > 0) {
      ++i;
    } else if (flag == "--family" && !last) {
      only = argv[++i];
    } else if (flag == "--pp" && !last && !NumbersOf(argv[i + 1]).empty()) {
      stages = NumbersOf(argv[++i]);
    } else if (flag == "--vpp" && !last && !NumbersOf(argv[i + 1]).empty()) {
      virtual_stages = NumbersOf(argv[++i]);
    } else if (flag == "--dynamic_cp" && !last && !NumbersOf(argv[i + 1]).empty()) {
      pools = NumbersOf(argv[++i]);
    } else if (flag == "--per_microbatch" && !last &&
               absl::SimpleAtod(argv[i + 1], &per_microbatch) && per_microbatch >= 0) {
      ++i;
    } else if (flag == "--one_size") {
      one_size = true;
    } else if (flag == "--shared_prefixes") {
      shared_prefixes = true;
    } else if (flag == "--multimodal") {
      multimodal = true;
    } else if (flag == "--dp" && !last && !NumbersOf(argv[i + 1]).empty()) {
      loads.ranks = NumbersOf(argv[++i]);
    } else if (flag == "--sequences" && !last && absl::SimpleAtoi(argv[i + 1], &loads.sequences) &&
               loads.sequences > 0) {
      ++i;
    } else if (flag == "--effort" && !last && EffortOf(argv[i + 1])) {
      loads.effort = *EffortOf(argv[++i]);
    } else {
      PrintUsage(argv[0]);
      return EXIT_FAILURE;
    }
  }
  loads.seeds = seeds;
  loads.family = only;
  if (multimodal || shared_prefixes || one_size || !stages.empty() || !pools.empty()) {
    const bool any = multimodal        ? bench::PrintLoadStepTimes(loads)
                     : shared_prefixes ? bench::PrintPrefixStepTimes(seeds, only)
                     : one_size        ? bench::PrintOneSizeStepTimes(kFamilies, seeds, only)
                     : stages.empty()
                         ? bench::PrintDynamicStepTimes(pools, per_microbatch, seeds, only)
                         : bench::PrintPipelineStepTimes(stages, virtual_stages, seeds, only);
    if (any) return EXIT_SUCCESS;
    std::fprintf(stderr, "no family \"%s\"\n", only.c_str());
    return EXIT_FAILURE;
  }
  std::vector<Speedups> speedups;
  Speedups overall{.title = "overall", .over = {}};
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    for (const Family& family : kFamilies) {
      if (!only.empty() && family.name != only) continue;
      speedups.push_back(RunFamily(family, synchronization, seeds, overall));
    }
  }
  if (speedups.empty()) {
    std::fprintf(stderr, "no family \"%s\"\n", only.c_str());
    return EXIT_FAILURE;
  }
  speedups.push_back(overall);
  PrintSpeedups(speedups);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace batchplan

int main(int argc, char** argv) { return batchplan::Main(argc, argv); }
