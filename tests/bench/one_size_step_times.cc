#include "tests/bench/one_size_step_times.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <optional>
#include <vector>

#include "server/planner/balance/step_time_bound.h"
#include "server/planner/groups/solve_context.h"
#include "server/planner/make_plan.h"
#include "server/planner/packing/lower_bounds.h"
#include "server/planner/pass/context_problem.h"
#include "server/planner/pass/context_time.h"
#include "server/planner/request/presets.h"

namespace batchplan::bench {
namespace {

// A token in the units of the default cost model, in which costs are whole numbers.
constexpr uint64_t kToken = 24576;
constexpr uint64_t kTokensOfMicrobatch = 1024;

// Relative to a token's own cost: InfiniBand with few heads of keys and values; with all heads.
constexpr double kNetworkExchanges[] = {0.065, 0.26};

// A batch in the form of the solvers.
struct SolverItems {
  std::vector<uint32_t> lengths;
  std::vector<uint64_t> costs;
};

SolverItems ItemsOf(const Family& family, uint64_t seed) {
  SolverItems items{.lengths = family.lengths(family.sequences, seed), .costs = {}};
  for (const uint64_t length : items.lengths) {
    items.costs.push_back(kToken * length + length * length);
  }
  return items;
}

PlanOptions RankOptions(const Family& family) {
  PlanOptions options;
  options.topology.data_parallel = family.ranks;
  options.cost_model.per_microbatch = kTokensOfMicrobatch;
  options.passes.push_back(PresetPass("balanced", options.topology).value());
  options.passes[0].max_tokens_per_microbatch = family.budget;
  return options;
}

double BoundOf(const Family& family, const SolverItems& batch) {
  const PackItems items = {.lengths = batch.lengths, .loads = batch.costs};
  const BinLimits limits = {.capacity = family.budget};
  const uint64_t slots = (LowerBoundBins(items, limits) + family.ranks - 1) / family.ranks;
  return static_cast<double>(LockstepBound(items, limits, family.ranks) +
                             slots * kTokensOfMicrobatch * kToken);
}

// Sums over batches.
struct SolverFigures {
  double over_bound = 0;
  double milliseconds = 0;
  double slots = 0;
};

double MillisecondsSince(std::clock_t start) {
  return 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

void AddRanks(const Family& family, const SolverItems& batch, double bound,
              SolverFigures& figures) {
  const PlanOptions options = RankOptions(family);
  const std::clock_t start = std::clock();
  const Plan plan = MakePlan({.lengths = batch.lengths}, options).value();
  figures.milliseconds += MillisecondsSince(start);
  figures.over_bound += plan.passes[0].metrics.predicted_step_time * kToken / bound;
  figures.slots += plan.passes[0].microbatches_per_rank[0];
}

void AddGroups(const Family& family, const SolverItems& batch, double bound,
               SolverFigures& figures) {
  const ContextProblem problem = {.pool = family.ranks,
                                  .sizes = {{.ranks = 1,
                                             .capacity = family.budget,
                                             .tokens = batch.lengths,
                                             .costs = batch.costs}},
                                  .per_microbatch = kTokensOfMicrobatch * kToken};
  const Allowance allowance(AllowanceOf(Effort::kDefault), {});
  const std::clock_t start = std::clock();
  const ContextSlots slots = SolveContext(problem, {}, allowance).value().slots;
  figures.milliseconds += MillisecondsSince(start);
  figures.over_bound += static_cast<double>(ContextTime(problem, slots, allowance)) / bound;
  figures.slots += static_cast<double>(slots.size());
}

double OverBound(const std::vector<uint32_t>& lengths, const PlanOptions& options) {
  const PlanMetrics metrics = MakePlan({.lengths = lengths}, options).value().passes[0].metrics;
  return metrics.predicted_step_time / metrics.lower_bound_step_time;
}

void PrintSolvers(std::span<const Family> families, uint64_t seeds) {
  std::printf(
      "| batches | ranks | ranks: time / bound | ms | slots | groups of one: time / bound | ms | "
      "slots |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Family& family : families) {
    SolverFigures ranks;
    SolverFigures groups;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      const SolverItems batch = ItemsOf(family, seed);
      const double bound = BoundOf(family, batch);
      AddRanks(family, batch, bound, ranks);
      AddGroups(family, batch, bound, groups);
    }
    std::printf("| %.*s, %zu | %u |", static_cast<int>(family.name.size()), family.name.data(),
                family.sequences, family.ranks);
    const auto count = static_cast<double>(seeds);
    for (const SolverFigures& figures : {ranks, groups}) {
      std::printf(" %.4f | %.1f | %.1f |", figures.over_bound / count, figures.milliseconds / count,
                  figures.slots / count);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

void PrintPools(std::span<const Family> families, uint64_t seeds) {
  std::printf(
      "\n| batches | exchange | ranks | groups may differ | longest 10 %% too long for a rank | "
      "worst |\n| --- | --- | --- | --- | --- | --- |\n");
  for (const Family& family : families) {
    for (const double exchange : kNetworkExchanges) {
      PlanOptions options = RankOptions(family);
      options.cost_model.exchange = {{.up_to_size = 0, .per_token = exchange}};
      PlanOptions dynamic = options;
      dynamic.topology.dynamic_context.emplace();
      double ranks = 0;
      double differ = 0;
      double too_long = 0;
      double worst = 0;
      for (uint64_t seed = 1; seed <= seeds; ++seed) {
        std::vector<uint32_t> lengths = family.lengths(family.sequences, seed);
        ranks += OverBound(lengths, options);
        differ += OverBound(lengths, dynamic);
        *std::max_element(lengths.begin(), lengths.end()) = family.budget / 10 * 11;
        const double own = OverBound(lengths, dynamic);
        too_long += own;
        worst = std::max(worst, own);
      }
      const auto count = static_cast<double>(seeds);
      std::printf("| %.*s, %zu | %.3f | %.4f | %.4f | %.4f | %.4f |\n",
                  static_cast<int>(family.name.size()), family.name.data(), family.sequences,
                  exchange, ranks / count, differ / count, too_long / count, worst);
      std::fflush(stdout);
    }
  }
}

}  // namespace

bool PrintOneSizeStepTimes(std::span<const Family> families, uint64_t seeds,
                           const std::string& family_name) {
  std::vector<Family> chosen(families.begin(), families.end());
  if (!family_name.empty()) {
    std::erase_if(chosen, [&](const Family& family) { return family.name != family_name; });
  }
  if (chosen.empty()) return false;
  PrintSolvers(chosen, seeds);
  PrintPools(chosen, seeds);
  return true;
}

}  // namespace batchplan::bench
