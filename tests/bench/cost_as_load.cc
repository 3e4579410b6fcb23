#include "tests/bench/cost_as_load.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "server/planner/make_plan.h"
#include "server/planner/request/presets.h"
#include "tests/bench/geometric_mean.h"
#include "tests/bench/load_batches.h"
#include "tests/bench/load_judge.h"
#include "tests/bench/rank_microbatches.h"

namespace batchplan::bench {
namespace {

struct TimedPlan {
  double step_time = 0;
  double milliseconds = 0;
};

TimedPlan PlanOf(const LoadBatch& batch, const Manifest& manifest, const PlanOptions& options) {
  const std::clock_t start = std::clock();
  const Plan plan = MakePlan(manifest, options).value();
  const std::clock_t end = std::clock();
  const LoadTimes times =
      JudgeLoads(batch, kModelOf7B, MicrobatchesOf(plan.passes[0], options.topology.data_parallel),
                 options.passes[0].max_tokens_per_microbatch);
  return {.step_time = options.synchronization == Synchronization::kLockstep ? times.lockstep
                                                                             : times.accumulated,
          .milliseconds = 1000.0 * static_cast<double>(end - start) / CLOCKS_PER_SEC};
}

struct CostFigures {
  GeometricMean ratio;
  GeometricMean planning;
  double milliseconds = 0;
};

void Add(const Family& family, const LoadRuns& runs, uint32_t ranks,
         Synchronization synchronization, uint64_t seed, CostFigures& row, CostFigures& all) {
  const size_t sequences = runs.sequences > 0 ? runs.sequences : family.sequences;
  LoadBatch batch;
  batch.lengths = family.lengths(sequences, seed);
  batch.kinds.resize(sequences, kTextKind);
  batch.patches.resize(sequences, 0);
  std::vector<double> costs;
  costs.reserve(sequences);
  for (const double length : batch.lengths) {
    costs.push_back(length + kModelOf7B.per_square() * length * length);
  }
  PlanOptions options;
  options.topology.data_parallel = ranks;
  options.synchronization = synchronization;
  options.effort = runs.effort;
  options.passes.push_back(PresetPass("balanced", options.topology).value());
  options.passes[0].max_tokens_per_microbatch = family.budget;
  options.passes[0].rows = RowPadding::kNone;
  const TimedPlan by_default = PlanOf(batch, batch.text_manifest(), options);
  options.cost_model = {
      .per_token = 0, .per_token_squared = 0, .loads = {{.load = "cost", .per_unit = 1}}};
  const TimedPlan by_load = PlanOf(
      batch, {.lengths = batch.lengths, .loads = {{.name = "cost", .values = costs}}}, options);
  for (CostFigures* of : {&row, &all}) {
    of->ratio.Add(by_load.step_time / by_default.step_time);
    of->planning.Add(by_load.milliseconds / by_default.milliseconds);
    of->milliseconds += by_default.milliseconds;
  }
}

void PrintFigures(const CostFigures& figures) {
  std::printf(" %.6f | %.6f | %.6f |", figures.ratio.value(), figures.ratio.least(),
              figures.ratio.most());
}

}  // namespace

bool PrintCostsAsLoad(const LoadRuns& runs) {
  bool any = false;
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    const char* name = synchronization == Synchronization::kLockstep ? "lockstep" : "accumulated";
    CostFigures all;
    for (const Family& family : runs.text) {
      if (!absl::StartsWith(family.name, runs.family)) continue;
      if (!any) {
        std::printf(
            "\n### Default costs as a load\n| batches | ranks | time, load / default | least | "
            "most | ms | planning time |\n| --- | --- | --- | --- | --- | --- | --- |\n");
      }
      any = true;
      for (const uint32_t ranks : runs.ranks) {
        CostFigures row;
        for (uint64_t seed = 1; seed <= runs.seeds; ++seed) {
          Add(family, runs, ranks, synchronization, seed, row, all);
        }
        std::printf("| %s, %s | %u |", family.name.data(), name, ranks);
        PrintFigures(row);
        std::printf(" %.1f |", row.milliseconds / static_cast<double>(runs.seeds));
        PrintMean(row.planning, 2);
        std::printf("\n");
        std::fflush(stdout);
      }
    }
    if (!any) return false;
    std::printf("| all, %s | |", name);
    PrintFigures(all);
    std::printf(" |");
    PrintMean(all.planning, 2);
    std::printf("\n");
  }
  return any;
}

}  // namespace batchplan::bench
