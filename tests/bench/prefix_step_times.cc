#include "tests/bench/prefix_step_times.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "server/planner/make_plan.h"
#include "server/planner/request/presets.h"
#include "tests/bench/geometric_mean.h"
#include "tests/bench/groups_together.h"
#include "tests/bench/prefix_batches.h"
#include "tests/bench/prefix_judge.h"
#include "tests/bench/prefix_systems.h"
#include "tests/bench/prefix_tree.h"
#include "tests/bench/rank_microbatches.h"

namespace batchplan::bench {
namespace {

using testing::RankMicrobatches;

// A token of the default cost model, in the judge's units.
constexpr double kJudgedToken = 24576;

// A batch and its plans for any number of ranks.
struct PrefixCase {
  PrefixBatch batch;
  PrefixTree tree;
  PrefixJudge judge;

  explicit PrefixCase(PrefixBatch made) : batch(std::move(made)), tree(batch), judge(batch) {}
};

// Ratios of step times.
struct PrefixRatios {
  GeometricMean mean;
  int below_one = 0;

  void Add(double ratio) {
    mean.Add(ratio);
    // Counted only if below by more than rounding.
    below_one += ratio < 1 - 1e-9;
  }
};

struct PrefixFigures {
  PrefixRatios fast_over_bound;
  PrefixRatios over_bound;
  // Divided by the step time of DEFAULT.
  PrefixRatios nothing_shared;
  PrefixRatios groups;
  PrefixRatios groups_cut;
  std::vector<PrefixRatios> systems;
  PrefixRatios best_system;
  std::vector<PrefixRatios> presets;
  double slots = 0;
  double fast_milliseconds = 0;
  double milliseconds = 0;
  int batches = 0;
};

struct PrefixPlan {
  double step_time = 0;
  double bound = 0;
  uint32_t slots = 0;
  double milliseconds = 0;
};

double StepTimeOf(PrefixCase& tested, const RankMicrobatches& plan, uint32_t budget,
                  Synchronization synchronization, const char* method, bool shared = true) {
  const StepTimes times = tested.judge.Judge(plan, budget, shared);
  if (times.over_budget > 0) {
    std::fprintf(stderr, "%s: %zu micro-batches over the budget\n", method,
                 static_cast<size_t>(times.over_budget));
    std::abort();
  }
  return static_cast<double>(synchronization == Synchronization::kLockstep ? times.lockstep
                                                                           : times.accumulated) /
         kJudgedToken;
}

// The presets that form rows of shared tokens.
std::vector<absl::string_view> TreePresets() {
  std::vector<absl::string_view> presets;
  for (const absl::string_view preset : kPresetNames) {
    if (IsOfTrees(PresetPass(preset, {})->sharding)) presets.push_back(preset);
  }
  return presets;
}

// Plans with the planner, without row padding.
PrefixPlan PlannedBy(absl::string_view preset, PrefixCase& tested, uint32_t budget, uint32_t ranks,
                     Synchronization synchronization, Effort effort, bool shared) {
  PlanOptions options;
  options.topology.data_parallel = ranks;
  options.synchronization = synchronization;
  options.effort = effort;
  // As in the other systems, a rank with fewer rows has empty micro-batches.
  options.allow_empty_microbatches = true;
  options.passes.push_back(PresetPass(preset, options.topology).value());
  options.passes[0].max_tokens_per_microbatch = budget;
  options.passes[0].rows = RowPadding::kNone;
  options.passes[0].ignore_shared_prefixes = !shared;
  const std::clock_t start = std::clock();
  const Plan plan = MakePlan(tested.batch.manifest(), options).value();
  const std::clock_t end = std::clock();
  const PassPlan& pass = plan.passes[0];
  const double step_time = StepTimeOf(tested, MicrobatchesOf(pass, ranks), budget, synchronization,
                                      preset.data(), shared);
  if (std::abs(step_time / pass.metrics.predicted_step_time - 1) > 1e-9) {
    std::fprintf(stderr, "%s: a step time of %f, not %f\n", preset.data(), step_time,
                 pass.metrics.predicted_step_time);
    std::abort();
  }
  return {.step_time = step_time,
          .bound = pass.metrics.lower_bound_step_time,
          .slots = pass.microbatches_per_rank[0],
          .milliseconds = 1000.0 * static_cast<double>(end - start) / CLOCKS_PER_SEC};
}

// Adds the results for a batch to each of `figures`.
void Add(PrefixCase& tested, uint32_t budget, uint32_t ranks, Synchronization synchronization,
         std::initializer_list<PrefixFigures*> figures) {
  const auto balanced = [&](Effort effort, bool shared) {
    return PlannedBy("balanced", tested, budget, ranks, synchronization, effort, shared);
  };
  const PrefixPlan fast = balanced(Effort::kFast, true);
  const PrefixPlan ours = balanced(Effort::kDefault, true);
  const PrefixPlan unshared = balanced(Effort::kDefault, false);
  const auto groups_together = [&](bool may_be_empty) {
    return StepTimeOf(tested,
                      GroupsTogether(tested.tree, budget, ranks, synchronization, may_be_empty),
                      budget, synchronization, "groups together");
  };
  const double groups = groups_together(/*may_be_empty=*/true);
  const double groups_cut = groups_together(/*may_be_empty=*/false);
  std::vector<double> systems;
  for (const PrefixSystem& system : PrefixSystems()) {
    systems.push_back(StepTimeOf(tested, system.plan(tested.tree, budget, ranks), budget,
                                 synchronization, system.name.data()));
  }
  std::vector<double> presets;
  for (const absl::string_view preset : TreePresets()) {
    presets.push_back(PlannedBy(preset, tested, budget, ranks, synchronization, Effort::kDefault,
                                /*shared=*/true)
                          .step_time);
  }
  for (PrefixFigures* of : figures) {
    of->fast_over_bound.Add(fast.step_time / fast.bound);
    of->over_bound.Add(ours.step_time / ours.bound);
    of->nothing_shared.Add(unshared.step_time / ours.step_time);
    of->groups.Add(groups / ours.step_time);
    of->groups_cut.Add(groups_cut / ours.step_time);
    of->systems.resize(systems.size());
    double best = std::numeric_limits<double>::infinity();
    for (size_t s = 0; s < systems.size(); ++s) {
      of->systems[s].Add(systems[s] / ours.step_time);
      best = std::min(best, systems[s]);
    }
    of->best_system.Add(best / ours.step_time);
    of->presets.resize(presets.size());
    for (size_t p = 0; p < presets.size(); ++p) of->presets[p].Add(presets[p] / ours.step_time);
    of->slots += ours.slots;
    of->fast_milliseconds += fast.milliseconds;
    of->milliseconds += ours.milliseconds;
    ++of->batches;
  }
}

void PrintPrefixTitle(Synchronization synchronization) {
  std::printf(
      "\n### %s\n| batches | sequences, tokens | ranks | slots | ms, fast | ms | fast / bound | "
      "time / bound | nothing shared | groups together | none empty |",
      synchronization == Synchronization::kLockstep ? "lockstep" : "accumulated");
  for (const PrefixSystem& system : PrefixSystems()) std::printf(" %s |", system.name.data());
  std::printf(" best of these |\n|");
  for (size_t i = 0; i < 12 + PrefixSystems().size(); ++i) std::printf(" --- |");
  std::printf("\n");
}

void PrintRow(const PrefixFamily& family, uint32_t ranks, const PrefixFigures& figures) {
  std::printf("| %s | %zu, %u | %u | %.1f | %.1f | %.1f |", family.name.data(), family.sequences,
              family.budget, ranks, figures.slots / figures.batches,
              figures.fast_milliseconds / figures.batches, figures.milliseconds / figures.batches);
  for (const PrefixRatios* ratios :
       {&figures.fast_over_bound, &figures.over_bound, &figures.nothing_shared, &figures.groups,
        &figures.groups_cut}) {
    PrintMean(ratios->mean);
  }
  for (const PrefixRatios& ratios : figures.systems) PrintMean(ratios.mean);
  PrintMean(figures.best_system.mean);
  std::printf("\n");
  std::fflush(stdout);
}

void PrintPrefixRatios(const char* name, const PrefixRatios& ratios) {
  std::printf("| %s | %.3f | %.3f | %.3f | %d |\n", name, ratios.mean.value(), ratios.mean.least(),
              ratios.mean.most(), ratios.below_one);
}

void PrintMeans(const PrefixFigures& figures) {
  std::printf("\n| %d batches | mean | least | most | below 1 |\n| --- | --- | --- | --- | --- |\n",
              figures.batches);
  PrintPrefixRatios("fast / bound", figures.fast_over_bound);
  PrintPrefixRatios("time / bound", figures.over_bound);
  PrintPrefixRatios("nothing shared", figures.nothing_shared);
  PrintPrefixRatios("groups together", figures.groups);
  PrintPrefixRatios("groups together, none empty", figures.groups_cut);
  for (size_t s = 0; s < figures.systems.size(); ++s) {
    PrintPrefixRatios(PrefixSystems()[s].name.data(), figures.systems[s]);
  }
  PrintPrefixRatios("best of these", figures.best_system);
  for (size_t p = 0; p < figures.presets.size(); ++p) {
    PrintPrefixRatios(TreePresets()[p].data(), figures.presets[p]);
  }
  std::printf("\nPlanned in %.1f ms at FAST, %.1f ms at DEFAULT.\n",
              figures.fast_milliseconds / figures.batches, figures.milliseconds / figures.batches);
}

}  // namespace

bool PrintPrefixStepTimes(uint64_t seeds, const std::string& family_name) {
  bool any = false;
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    PrefixFigures all;
    for (const PrefixFamily& family : PrefixFamilies()) {
      if (!absl::StartsWith(family.name, family_name)) continue;
      if (all.batches == 0) PrintPrefixTitle(synchronization);
      any = true;
      PrefixFigures rows[std::size(kPrefixRanks)];
      for (uint64_t seed = 1; seed <= seeds; ++seed) {
        PrefixCase tested(family.Make(seed));
        for (size_t i = 0; i < std::size(kPrefixRanks); ++i) {
          Add(tested, family.budget, kPrefixRanks[i], synchronization, {&rows[i], &all});
        }
      }
      for (size_t i = 0; i < std::size(kPrefixRanks); ++i) {
        PrintRow(family, kPrefixRanks[i], rows[i]);
      }
    }
    if (any) PrintMeans(all);
  }
  return any;
}

}  // namespace batchplan::bench
