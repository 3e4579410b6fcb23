#include "tests/bench/dynamic_step_times.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/make_plan.h"
#include "server/planner/request/context_sizes.h"
#include "server/planner/request/presets.h"
#include "tests/bench/geometric_mean.h"
#include "tests/bench/length_family.h"
#include "tests/support/generators.h"

namespace batchplan::bench {
namespace {

// Lengths, and how many sequences there are for each rank of a pool.
constexpr Family kPoolFamilies[] = {
    {"maths", testing::MathsLengths, 64, 16384, 1},
    {"long_cot", testing::LongCotLengths, 32, 65536, 1},
    {"agentic", testing::AgenticLengths, 64, 32768, 1},
    {"zipf", testing::ZipfLengths, 256, 8192, 1},
};

// Relative to a token's own cost: none; NVLink; InfiniBand with few heads of keys and values;
// InfiniBand with all heads.
constexpr double kExchanges[] = {0, 0.02, 0.065, 0.26};

struct PoolMachine {
  uint32_t pool = 1;
  // The tokens that a rank holds.
  uint32_t cap = 0;
  double exchange = 0;
  double per_microbatch = 0;
  Synchronization synchronization = Synchronization::kLockstep;
};

PlanOptions OptionsOf(const PoolMachine& machine, absl::string_view preset) {
  PlanOptions options;
  options.topology.data_parallel = machine.pool;
  options.topology.dynamic_context.emplace();
  options.synchronization = machine.synchronization;
  options.cost_model.per_microbatch = machine.per_microbatch;
  options.cost_model.exchange = {{.up_to_size = 0, .per_token = machine.exchange}};
  options.passes.push_back(PresetPass(preset, options.topology).value());
  options.passes[0].max_tokens_per_microbatch = machine.cap;
  return options;
}

std::optional<double> StepTimeOf(std::span<const uint32_t> lengths, const PlanOptions& options) {
  const absl::StatusOr<Plan> plan = MakePlan({.lengths = lengths}, options);
  if (!plan.ok()) return std::nullopt;
  return plan->passes[0].metrics.predicted_step_time;
}

// The least step time of any fixed size of groups.
std::optional<double> BestFixedTime(std::span<const uint32_t> lengths, const PoolMachine& machine) {
  std::optional<double> best;
  for (uint32_t size = 1; size <= machine.pool; size *= 2) {
    if (machine.pool % size != 0) break;
    PlanOptions options = OptionsOf(machine, "balanced");
    options.topology.dynamic_context.reset();
    options.topology.data_parallel = machine.pool / size;
    options.topology.context_parallel = size;
    options.passes[0].max_tokens_per_microbatch = machine.cap * size;
    const std::optional<double> time = StepTimeOf(lengths, options);
    if (time && (!best || *time < *best)) best = time;
  }
  return best;
}

// How long the ranks are busy if every sequence is on its cheapest size.
double CheapestSizes(std::span<const uint32_t> lengths, const PlanOptions& options) {
  const CostModel& model = options.cost_model;
  const std::vector<GroupLimits> sizes =
      GroupLimitsOf(options.topology, options.passes[0], "passes[0]").value();
  double busy = 0;
  uint64_t tokens = 0;
  for (const uint32_t length : lengths) {
    double least = std::numeric_limits<double>::infinity();
    for (const GroupLimits& size : sizes) {
      const uint32_t aligned = (length + size.multiple - 1) / size.multiple * size.multiple;
      if (aligned > size.capacity) continue;
      const double own = aligned * (model.per_token + model.per_token_squared * aligned);
      const double exchange = model.exchange[0].per_token * aligned * (size.ranks - 1);
      least = std::min(least, own + exchange);
    }
    busy += least;
    tokens += length;
  }
  const double pool = options.topology.data_parallel;
  const double room = pool * options.passes[0].max_tokens_per_microbatch;
  const double slots = std::ceil(static_cast<double>(tokens) / room);
  return busy / pool + slots * model.per_microbatch;
}

// Figures of one batch, or sums over several.
struct DynamicFigures {
  GeometricMean over_cheapest;
  GeometricMean over_bound;
  GeometricMean megatron;
  GeometricMean fixed;
};

// Plans one batch. Adds slots and milliseconds to the given sums.
void AddBatch(const Family& family, const PoolMachine& machine, uint64_t seed,
              DynamicFigures& of_row, DynamicFigures& of_table, double& slots,
              double& milliseconds) {
  const std::vector<uint32_t> lengths = family.lengths(family.sequences * machine.pool, seed);
  const PlanOptions options = OptionsOf(machine, "balanced");
  const std::clock_t start = std::clock();
  const Plan plan = MakePlan({.lengths = lengths}, options).value();
  milliseconds += 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  slots += plan.passes[0].microbatches_per_rank[0];
  const PlanMetrics& metrics = plan.passes[0].metrics;
  const double ours = metrics.predicted_step_time;
  const auto over_ours = [&](std::optional<double> theirs) -> std::optional<double> {
    if (!theirs) return std::nullopt;
    return *theirs / ours;
  };
  const double over_cheapest = ours / CheapestSizes(lengths, options);
  const std::optional<double> megatron =
      over_ours(StepTimeOf(lengths, OptionsOf(machine, "megatron_dynamic_cp")));
  const std::optional<double> fixed = over_ours(BestFixedTime(lengths, machine));
  for (DynamicFigures* const figures : {&of_row, &of_table}) {
    figures->over_cheapest.Add(over_cheapest);
    figures->over_bound.Add(ours / metrics.lower_bound_step_time);
    figures->megatron.Add(megatron);
    figures->fixed.Add(fixed);
  }
}

const char* NameOf(Synchronization synchronization) {
  return synchronization == Synchronization::kLockstep ? "lockstep" : "accumulated";
}

struct Table {
  Synchronization synchronization;
  double exchange;
  DynamicFigures figures;
};

// Prints the rows of one family.
void PrintRows(const Family& family, const std::vector<uint32_t>& pools, double per_microbatch,
               uint64_t seeds, Table& table) {
  for (const uint32_t part : {1u, 4u}) {
    for (const uint32_t pool : pools) {
      const PoolMachine machine = {.pool = pool,
                                   .cap = family.budget / part,
                                   .exchange = table.exchange,
                                   .per_microbatch = per_microbatch,
                                   .synchronization = table.synchronization};
      DynamicFigures figures;
      double slots = 0;
      double milliseconds = 0;
      for (uint64_t seed = 1; seed <= seeds; ++seed) {
        AddBatch(family, machine, seed, figures, table.figures, slots, milliseconds);
      }
      std::printf("| %.*s | %u | %u |", static_cast<int>(family.name.size()), family.name.data(),
                  machine.cap, pool);
      PrintMean(figures.over_cheapest, 4);
      PrintMean(figures.over_bound, 4);
      PrintMean(figures.megatron);
      PrintMean(figures.fixed);
      std::printf(" %.1f | %.1f |\n", slots / static_cast<double>(seeds),
                  milliseconds / static_cast<double>(seeds));
      std::fflush(stdout);
    }
  }
}

void PrintMeans(const std::vector<Table>& tables) {
  std::printf(
      "\n### Geometric means\n| | exchange | time / cheapest sizes | worst | time / bound | worst "
      "| "
      "megatron_dynamic_cp | least | best fixed | least |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Table& table : tables) {
    const DynamicFigures& figures = table.figures;
    std::printf("| %s | %.3f |", NameOf(table.synchronization), table.exchange);
    PrintMean(figures.over_cheapest, 4);
    std::printf(" %.4f |", figures.over_cheapest.most());
    PrintMean(figures.over_bound, 4);
    std::printf(" %.4f |", figures.over_bound.most());
    PrintMean(figures.megatron, 4);
    std::printf(" %.4f |", figures.megatron.least());
    PrintMean(figures.fixed, 4);
    std::printf(" %.4f |\n", figures.fixed.least());
  }
}

}  // namespace

bool PrintDynamicStepTimes(const std::vector<uint32_t>& pools, double per_microbatch,
                           uint64_t seeds, const std::string& family_name) {
  std::vector<Table> tables;
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    for (const double exchange : kExchanges) {
      Table table{.synchronization = synchronization, .exchange = exchange, .figures = {}};
      bool any = false;
      for (const Family& family : kPoolFamilies) {
        if (!family_name.empty() && family.name != family_name) continue;
        if (!any) {
          std::printf(
              "\n### %s, exchange %.3f\n| batches | tokens a rank | ranks | time / cheapest sizes "
              "| time / bound | megatron_dynamic_cp | best fixed | slots | ms |\n"
              "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
              NameOf(synchronization), exchange);
        }
        any = true;
        PrintRows(family, pools, per_microbatch, seeds, table);
      }
      if (!any) return false;
      tables.push_back(table);
    }
  }
  PrintMeans(tables);
  return true;
}

}  // namespace batchplan::bench
