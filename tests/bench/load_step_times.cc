#include "tests/bench/load_step_times.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/planner/make_plan.h"
#include "server/planner/request/presets.h"
#include "tests/bench/cost_as_load.h"
#include "tests/bench/geometric_mean.h"
#include "tests/bench/load_batches.h"
#include "tests/bench/load_judge.h"
#include "tests/bench/rank_microbatches.h"

namespace batchplan::bench {
namespace {

// The limit on patches, over the mean patches of a micro-batch.
constexpr double kLimit = 1.25;

// Processor time is the least of several runs.
constexpr int kTimings = 3;

// Ratios of step times.
struct Ratios {
  GeometricMean mean;
  int count = 0;
  int below_one = 0;
  std::string worst;

  void Add(double ratio, absl::string_view batch) {
    if (count == 0 || ratio > mean.most()) worst = std::string(batch);
    mean.Add(ratio);
    ++count;
    // Counted only if below by more than rounding.
    below_one += ratio < 1 - 1e-9;
  }
};

struct LoadFigures {
  Ratios blind;
  Ratios blind_over_bound;
  Ratios over_bound;
  Ratios dealt_over_bound;
  Ratios limited;
  Ratios fullest;
  Ratios alike;
  Ratios alike_over_bound;
  Ratios together;
  Ratios together_over_bound;
  Ratios time_of_ours;
  Ratios time_of_two_loads;
  Ratios time_of_dealt;
  double encoder = 0;
  double slots = 0;
  double blind_over = 0;
  double milliseconds = 0;
  double milliseconds_of_ours = 0;
  double milliseconds_of_two_loads = 0;
  double milliseconds_of_dealt = 0;
  int batches = 0;
};

// A batch and what it is planned for.
struct Case {
  const LoadFamily& family;
  LoadBatch batch;
  uint32_t ranks;
  Synchronization synchronization;
  Effort effort;
  std::string name;
};

// What a plan takes into account besides tokens.
struct Sight {
  bool encoder = false;
  bool dealt = false;
  // The limit on the patches of a micro-batch; 0: none.
  double limit = 0;
  KindsPerSlot kinds = KindsPerSlot::kAny;
};

struct Planned {
  LoadTimes times;
  double step_time = 0;
  double bound = 0;
  uint32_t slots = 0;
  double milliseconds = 0;
};

[[noreturn]] void Fail(const Case& tested, absl::string_view message) {
  std::fprintf(stderr, "%s: %s\n", tested.name.c_str(), std::string(message).c_str());
  std::abort();
}

bool IsLockstep(Synchronization synchronization) {
  return synchronization == Synchronization::kLockstep;
}

PlanOptions OptionsOf(const Case& tested, const Sight& sight) {
  PlanOptions options;
  options.topology.data_parallel = tested.ranks;
  options.synchronization = tested.synchronization;
  options.effort = tested.effort;
  options.cost_model.per_token_squared = tested.family.model.per_square();
  if (sight.encoder || sight.dealt) {
    options.cost_model.loads = {
        {.load = "encoder", .per_unit = 1, .separate = !sight.dealt, .dealt = sight.dealt}};
  }
  PassOptions& pass = options.passes.emplace_back(PresetPass("balanced", options.topology).value());
  pass.max_tokens_per_microbatch = tested.family.budget;
  pass.rows = RowPadding::kNone;
  pass.kinds_per_slot = sight.kinds;
  if (sight.limit > 0) pass.limits = {{.load = "patches", .max_per_microbatch = sight.limit}};
  return options;
}

// Checks that the judge and the planner agree on a plan that sees the encoder, and that the plan is
// as asked.
void Check(const Case& tested, const Sight& sight, const PassPlan& pass, const Planned& planned) {
  const LoadTimes& times = planned.times;
  const double predicted = pass.metrics.predicted_step_time;
  if ((sight.encoder || sight.dealt) && std::abs(planned.step_time / predicted - 1) > 1e-6) {
    Fail(tested, absl::StrCat("a step time of ", planned.step_time, ", not ", predicted));
  }
  if ((sight.encoder || sight.dealt) && planned.step_time < planned.bound * (1 - 1e-6)) {
    Fail(tested, absl::StrCat("a step time of ", planned.step_time, " is below the bound"));
  }
  if (sight.dealt &&
      (pass.item_ranks.size() != 1 || pass.item_ranks[0].ranks != times.item_ranks)) {
    Fail(tested, "items are dealt in another way");
  }
  if (sight.limit > 0 && std::ranges::max(times.patches) > sight.limit * (1 + 1e-9)) {
    Fail(tested, "a micro-batch is above the limit");
  }
  if ((sight.kinds == KindsPerSlot::kAlike && !times.kinds_alike) ||
      (sight.kinds == KindsPerSlot::kTogether && !times.kinds_together)) {
    Fail(tested, "a slot has kinds that it may not have");
  }
}

Planned PlannedBy(const Case& tested, const Sight& sight, int timings = 1) {
  const PlanOptions options = OptionsOf(tested, sight);
  const bool is_blind = !sight.encoder && !sight.dealt;
  const Manifest manifest = is_blind ? tested.batch.text_manifest() : tested.batch.manifest();
  Planned planned;
  planned.milliseconds = std::numeric_limits<double>::infinity();
  std::optional<Plan> plan;
  for (int i = 0; i < timings; ++i) {
    const std::clock_t start = std::clock();
    absl::StatusOr<Plan> made = MakePlan(manifest, options);
    const std::clock_t end = std::clock();
    if (!made.ok()) Fail(tested, made.status().message());
    plan = *std::move(made);
    planned.milliseconds =
        std::min(planned.milliseconds, 1000.0 * static_cast<double>(end - start) / CLOCKS_PER_SEC);
  }
  const PassPlan& pass = plan->passes[0];
  planned.times = JudgeLoads(tested.batch, tested.family.model, MicrobatchesOf(pass, tested.ranks),
                             tested.family.budget);
  const LoadTimes& times = planned.times;
  planned.step_time = IsLockstep(tested.synchronization)
                          ? (sight.dealt ? times.dealt_lockstep : times.lockstep)
                          : (sight.dealt ? times.dealt_accumulated : times.accumulated);
  planned.bound = pass.metrics.lower_bound_step_time;
  planned.slots = pass.microbatches_per_rank[0];
  Check(tested, sight, pass, planned);
  return planned;
}

// Whether there are enough sequences for each rank to have one of each kind, or one of any kind but
// text.
bool HasEnoughOf(const Case& tested, KindsPerSlot rule) {
  const auto count = [&](uint32_t kind) {
    return static_cast<uint64_t>(std::ranges::count(tested.batch.kinds, kind));
  };
  const auto is_enough = [&](uint64_t of_kind) { return of_kind == 0 || of_kind >= tested.ranks; };
  if (rule == KindsPerSlot::kTogether) {
    return is_enough(count(kImageKind) + count(kVideoKind));
  }
  return is_enough(count(kTextKind)) && is_enough(count(kImageKind)) &&
         is_enough(count(kVideoKind));
}

double EncoderPart(const Case& tested) {
  const double encoder =
      std::accumulate(tested.batch.encoder_costs.begin(), tested.batch.encoder_costs.end(), 0.0);
  double text = 0;
  for (const double length : tested.batch.lengths) {
    text += length + tested.family.model.per_square() * length * length;
  }
  return encoder / (encoder + text);
}

// Adds the results for a batch to each of `figures`.
void Add(const Case& tested, std::initializer_list<LoadFigures*> figures) {
  const Planned blind = PlannedBy(tested, {}, kTimings);
  const Planned ours = PlannedBy(tested, {.encoder = true}, kTimings);
  const Planned dealt = PlannedBy(tested, {.dealt = true}, kTimings);
  const double patches = std::accumulate(ours.times.patches.begin(), ours.times.patches.end(), 0.0);
  const double limit = kLimit * patches / static_cast<double>(ours.times.patches.size());
  const double largest = std::ranges::max(tested.batch.patches);
  const Planned limited =
      PlannedBy(tested, {.encoder = true, .limit = std::max(limit, largest)}, kTimings);
  const auto by_kinds = [&](KindsPerSlot rule) -> std::optional<Planned> {
    if (!HasEnoughOf(tested, rule)) return std::nullopt;
    return PlannedBy(tested, {.encoder = true, .kinds = rule});
  };
  const std::optional<Planned> alike = by_kinds(KindsPerSlot::kAlike);
  const std::optional<Planned> together = by_kinds(KindsPerSlot::kTogether);
  const auto over = static_cast<double>(
      std::ranges::count_if(blind.times.patches, [&](double n) { return n > limit; }));
  const auto blind_microbatches = static_cast<double>(blind.times.patches.size());
  for (LoadFigures* of : figures) {
    of->blind.Add(blind.step_time / ours.step_time, tested.name);
    of->blind_over_bound.Add(blind.step_time / ours.bound, tested.name);
    of->over_bound.Add(ours.step_time / ours.bound, tested.name);
    of->dealt_over_bound.Add(dealt.step_time / dealt.bound, tested.name);
    if (largest <= limit) of->limited.Add(limited.step_time / ours.step_time, tested.name);
    of->fullest.Add(std::ranges::max(blind.times.patches) / patches * blind_microbatches,
                    tested.name);
    if (alike) {
      of->alike.Add(alike->step_time / ours.step_time, tested.name);
      of->alike_over_bound.Add(alike->step_time / alike->bound, tested.name);
    }
    if (together) {
      of->together.Add(together->step_time / ours.step_time, tested.name);
      of->together_over_bound.Add(together->step_time / together->bound, tested.name);
    }
    of->time_of_ours.Add(ours.milliseconds / blind.milliseconds, tested.name);
    of->time_of_two_loads.Add(limited.milliseconds / blind.milliseconds, tested.name);
    of->time_of_dealt.Add(dealt.milliseconds / blind.milliseconds, tested.name);
    of->encoder += EncoderPart(tested);
    of->slots += ours.slots;
    of->blind_over += over / blind_microbatches;
    of->milliseconds += blind.milliseconds;
    of->milliseconds_of_ours += ours.milliseconds;
    of->milliseconds_of_two_loads += limited.milliseconds;
    of->milliseconds_of_dealt += dealt.milliseconds;
    ++of->batches;
  }
}

void PrintTitle(Synchronization synchronization) {
  std::printf(
      "\n### %s\n| batches | sequences, tokens | ranks | encoder | slots | blind | ours / bound | "
      "dealt / bound | worst | limit | of | blind over | fullest | alike | together | ms | two "
      "loads |\n|",
      IsLockstep(synchronization) ? "lockstep" : "accumulated");
  for (int i = 0; i < 17; ++i) std::printf(" --- |");
  std::printf("\n");
}

void PrintCell(const Ratios& ratios, int digits = 3) {
  if (ratios.count == 0) {
    std::printf(" - |");
  } else {
    PrintMean(ratios.mean, digits);
  }
}

void PrintRow(const LoadFamily& family, uint32_t ranks, const LoadFigures& figures) {
  const double batches = figures.batches;
  std::printf("| %s | %zu, %u | %u | %.0f %% | %.1f |", family.name.data(), family.sequences,
              family.budget, ranks, 100 * figures.encoder / batches, figures.slots / batches);
  PrintCell(figures.blind);
  PrintCell(figures.over_bound, 4);
  PrintCell(figures.dealt_over_bound, 4);
  std::printf(" %.4f |", figures.dealt_over_bound.mean.most());
  PrintCell(figures.limited, 4);
  std::printf(" %d | %.0f %% |", figures.limited.count, 100 * figures.blind_over / batches);
  PrintCell(figures.fullest, 2);
  PrintCell(figures.alike, 4);
  PrintCell(figures.together, 4);
  std::printf(" %.1f |", figures.milliseconds / batches);
  PrintCell(figures.time_of_two_loads, 2);
  std::printf("\n");
  std::fflush(stdout);
}

void PrintRatios(const char* name, const Ratios& ratios) {
  if (ratios.count == 0) return;
  std::printf("| %s | %d | %.5f | %.5f | %.5f | %d | %s |\n", name, ratios.count,
              ratios.mean.value(), ratios.mean.least(), ratios.mean.most(), ratios.below_one,
              ratios.worst.c_str());
}

void PrintMeansTitle(absl::string_view title) {
  std::printf(
      "\n| %s | batches | mean | least | most | below 1 | the most is of |\n| --- | --- | --- | "
      "--- "
      "| --- | --- | --- |\n",
      std::string(title).c_str());
}

void PrintMeans(const LoadFigures& figures) {
  PrintMeansTitle("all");
  PrintRatios("blind / ours", figures.blind);
  PrintRatios("blind / bound", figures.blind_over_bound);
  PrintRatios("ours / bound", figures.over_bound);
  PrintRatios("dealt / bound", figures.dealt_over_bound);
  PrintRatios("within the limit / ours", figures.limited);
  PrintRatios("blind's fullest / mean patches", figures.fullest);
  PrintRatios("alike / ours", figures.alike);
  PrintRatios("alike / its bound", figures.alike_over_bound);
  PrintRatios("together / ours", figures.together);
  PrintRatios("together / its bound", figures.together_over_bound);
  PrintRatios("planning time, ours / blind", figures.time_of_ours);
  PrintRatios("planning time, two loads / blind", figures.time_of_two_loads);
  PrintRatios("planning time, dealt / blind", figures.time_of_dealt);
  const double batches = figures.batches;
  std::printf("\nOf blind's micro-batches %.0f %% are above the limit.\n",
              100 * figures.blind_over / batches);
  std::printf(
      "Planned in %.1f ms blind, %.1f ms with the encoder, %.1f ms with two loads, %.1f ms "
      "dealt.\n",
      figures.milliseconds / batches, figures.milliseconds_of_ours / batches,
      figures.milliseconds_of_two_loads / batches, figures.milliseconds_of_dealt / batches);
}

}  // namespace

bool PrintLoadStepTimes(const LoadRuns& runs) {
  bool any = false;
  for (const Synchronization synchronization :
       {Synchronization::kLockstep, Synchronization::kAccumulated}) {
    LoadFigures all;
    for (LoadFamily family : LoadFamilies()) {
      if (!absl::StartsWith(family.name, runs.family)) continue;
      if (runs.sequences > 0) family.sequences = runs.sequences;
      if (all.batches == 0) PrintTitle(synchronization);
      any = true;
      for (const uint32_t ranks : runs.ranks) {
        LoadFigures row;
        for (uint64_t seed = 1; seed <= runs.seeds; ++seed) {
          const Case tested = {
              .family = family,
              .batch = family.Make(seed),
              .ranks = ranks,
              .synchronization = synchronization,
              .effort = runs.effort,
              .name = absl::StrCat(family.name, ", ", ranks, " ranks, seed ", seed)};
          Add(tested, {&row, &all});
        }
        PrintRow(family, ranks, row);
      }
    }
    if (all.batches > 0) PrintMeans(all);
  }
  return PrintCostsAsLoad(runs) || any;
}

}  // namespace batchplan::bench
