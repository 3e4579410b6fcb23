#include "server/planner/plan_selection.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/planner/plan_whole.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/cancellation.h"
#include "server/planner/request/sequence_groups.h"
#include "server/planner/split/choice.h"
#include "server/planner/split/step_estimate.h"
#include "server/planner/split/waiting_pool.h"

namespace batchplan {
namespace {

// The sequences and micro-batches of a plan, over all passes; of none, its sequences.
uint64_t SizeOf(const absl::StatusOr<Plan>& plan, uint64_t sequences) {
  if (!plan.ok()) return sequences;
  uint64_t size = 0;
  for (const PassPlan& pass : plan->passes) {
    size += pass.sequence_index.size() + pass.row_widths.size();
  }
  return size;
}

// The number of choices that are planned beside first in, first out, whose plan has that size on
// all stages. The size limits it because no allowance counts much of the work of planning.
size_t PlannedChoices(Effort effort, uint64_t size) {
  const size_t most = effort == Effort::kThorough ? 64 : effort == Effort::kDefault ? 32 : 1;
  return std::clamp<size_t>(1500 / size, 1, most);
}

// Choices are planned until their ticks come to those of first in, first out, and at least to this.
uint64_t PlannedTicks(Effort effort) {
  return effort == Effort::kThorough ? 400'000'000 : 40'000'000;
}

// How often a step is estimated, each time for this many ticks: at least a few times, unless these
// have very many ticks.
uint64_t Evaluations(Effort effort, uint64_t ticks_each) {
  constexpr uint64_t kMostTicks = 400'000'000;
  const uint64_t ticks = effort == Effort::kFast       ? 10'000'000
                         : effort == Effort::kThorough ? kMostTicks
                                                       : 30'000'000;
  const uint64_t most = std::clamp<uint64_t>(ticks / ticks_each, 8, 2000);
  return std::min(most, kMostTicks / ticks_each);
}

std::vector<uint32_t> At(std::span<const uint32_t> values, std::span<const SequenceIndex> taken) {
  std::vector<uint32_t> at;
  if (values.empty()) return at;
  at.reserve(taken.size());
  for (const SequenceIndex sequence : taken) at.push_back(values[sequence.value()]);
  return at;
}

// A plan of these sequences, ascending, as if they were the manifest; positions are the manifest's.
absl::StatusOr<Plan> PlanTaken(const Manifest& manifest, const PlanOptions& options,
                               const PassLimits& limits, std::span<const SequenceIndex> taken,
                               const Allowance& allowance) {
  const std::vector<uint32_t> lengths = At(manifest.lengths, taken);
  const std::vector<uint32_t> group_ids = At(manifest.group_ids, taken);
  const std::vector<uint32_t> ranks = At(manifest.ranks, taken);
  const Manifest part = {
      .lengths = lengths, .group_ids = group_ids, .pad_to = manifest.pad_to, .ranks = ranks};
  absl::StatusOr<Plan> plan = PlanAtEffort(part, options, limits, allowance);
  if (!plan.ok()) return plan;
  for (PassPlan& pass : plan->passes) {
    for (uint32_t& index : pass.sequence_index) index = taken[index].value();
  }
  for (ExcludedSequence& sequence : plan->excluded) {
    sequence.index = taken[sequence.index].value();
  }
  return plan;
}

// Predicted over ideal step time, of all passes.
double RatioOf(const Plan& plan) {
  double predicted = 0;
  double ideal = 0;
  for (const PassPlan& pass : plan.passes) {
    predicted += pass.metrics.predicted_step_time;
    ideal += pass.metrics.ideal_step_time;
  }
  return ideal == 0 ? 1 : predicted / ideal;
}

// What waits, of a plan of `taken`; and what is excluded, with that of the pool.
void Complete(const WaitingPool& pool, std::span<const SequenceIndex> taken, Plan& plan) {
  std::vector<SequenceIndex> all(pool.units().all().begin(), pool.units().all().end());
  std::ranges::sort(all);
  auto next = taken.begin();
  for (const SequenceIndex sequence : all) {
    if (next != taken.end() && *next == sequence) {
      ++next;
    } else {
      plan.deferred.push_back(sequence.value());
    }
  }
  plan.excluded.insert(plan.excluded.end(), pool.excluded().begin(), pool.excluded().end());
  std::ranges::sort(plan.excluded, {}, &ExcludedSequence::index);
}

// By unit, what it costs and what its longest sequence does, as the whole of it on one rank.
struct UnitCosts {
  std::vector<double> all;
  std::vector<double> longest;
};

UnitCosts CostsOf(const PlannedLengths& planned, const CostModel& model,
                  const SequenceLists& units) {
  UnitCosts costs;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    double all = 0;
    double longest = 0;
    for (const SequenceIndex sequence : units[unit]) {
      const double length = planned.lengths[sequence.value()];
      const double cost = (model.per_token + model.per_token_squared * length) * length;
      all += cost;
      longest = std::max(longest, cost);
    }
    costs.all.push_back(all);
    costs.longest.push_back(longest);
  }
  return costs;
}

// The sequences of what may be better than first in, first out as planned, the most promising
// first.
std::vector<std::vector<SequenceIndex>> BetterChoices(
    const Manifest& manifest, const PlanOptions& options, const PassLimits& limits,
    const WaitingPool& pool, const absl::StatusOr<Plan>& first, const Allowance& allowance) {
  // Whole as they wait, so that sequences keep their positions.
  PlannedLengths planned;
  planned.lengths.assign(manifest.lengths.size(), 0);
  for (const SequenceIndex sequence : pool.units().all()) {
    const uint32_t i = sequence.value();
    planned.lengths[i] = options.overlong == OverlongPolicy::kTruncate
                             ? std::min(manifest.lengths[i], limits.longest.length)
                             : manifest.lengths[i];
  }
  const Groups groups(manifest, options.mini_batches.groups);
  const size_t sequences = pool.Sequences(pool.first_choice()).size();
  const size_t size = options.mini_batches.size;
  const size_t mini_batches = size == 0 ? 1 : std::max<size_t>(1, sequences / size);
  const std::optional<StepEstimate> estimate = StepEstimate::Create(
      manifest, options, limits, planned, groups, mini_batches, allowance.stop());
  if (!estimate) return {};
  const uint64_t ticks = estimate->TicksOf(sequences, mini_batches);
  const uint64_t evaluations = Evaluations(options.effort, ticks);
  if (evaluations == 0) return {};
  allowance.SpendOnTop(evaluations * ticks);
  const UnitCosts costs = CostsOf(planned, options.cost_model, pool.units());
  const double to_beat = first.ok() ? RatioOf(*first) : std::numeric_limits<double>::infinity();
  const uint64_t to_plan = SizeOf(first, sequences * options.passes.size()) *
                           options.topology.pipeline_parallel * options.topology.virtual_pipeline;
  std::vector<std::vector<SequenceIndex>> better;
  for (const std::vector<uint32_t>& chosen :
       Choices(pool, costs.all, costs.longest, *estimate, to_beat, evaluations,
               PlannedChoices(options.effort, to_plan), allowance)) {
    better.push_back(pool.Sequences(chosen));
  }
  return better;
}

// A plan of the chosen sequences. Of first in, first out it may be the reason why there is none.
struct TakenPlan {
  absl::StatusOr<Plan> plan;
  std::vector<SequenceIndex> taken;
};

// The best of first in, first out and the choices that an effort plans, each of both with what the
// effort allows, as long as `request` does.
TakenPlan PlanBestChoice(const Manifest& manifest, const PlanOptions& options,
                         const PassLimits& limits, const WaitingPool& pool,
                         const Allowance& request) {
  const std::stop_token& stop = request.stop();
  const uint64_t ticks = AllowanceOf(options.effort);
  std::vector<SequenceIndex> taken = pool.Sequences(pool.first_choice());
  const Allowance first(std::min(ticks, request.left()), stop, kReserve / 4);
  absl::StatusOr<Plan> best = PlanTaken(manifest, options, limits, taken, first);
  request.Spend(first.used());
  // Others are planned where one plan does not take long, by its greedy work alone or altogether.
  std::vector<std::vector<SequenceIndex>> choices;
  if (GreedyTicks(taken.size(), options.passes.size()) <= kGreedyOnTop && !request.spent()) {
    choices = BetterChoices(manifest, options, limits, pool, best, request);
  }
  const Allowance others(std::min(ticks, request.left()), stop, kReserve / 4);
  const uint64_t most = std::max(first.used(), PlannedTicks(options.effort));
  for (size_t i = 0; i < choices.size() && others.used() < most && !stop.stop_requested(); ++i) {
    absl::StatusOr<Plan> plan = PlanTaken(manifest, options, limits, choices[i], others);
    if (!plan.ok() || (best.ok() && RatioOf(*plan) >= RatioOf(*best))) continue;
    best = std::move(plan);
    taken = std::move(choices[i]);
  }
  request.Spend(others.used());
  if (absl::Status status = CheckStop(others); !status.ok()) return {std::move(status), {}};
  return {std::move(best), std::move(taken)};
}

// The best of an effort and all lower ones. Where they find none, the first that the higher ones
// find. All together have the allowance of the request.
TakenPlan PlanOfAnyEffort(const Manifest& manifest, const PlanOptions& options,
                          const PassLimits& limits, const WaitingPool& pool,
                          const Allowance& request) {
  // Large ones are planned with their own effort alone, or another where that finds no plan.
  const bool starts_lower = GreedyTicks(pool.Sequences(pool.first_choice()).size(),
                                        options.passes.size()) <= kGreedyOnTop / 3;
  TakenPlan best{.plan = absl::UnknownError("not planned"), .taken = {}};
  for (const Effort effort : {Effort::kFast, Effort::kDefault, Effort::kThorough}) {
    if (effort > options.effort && !absl::IsInvalidArgument(best.plan.status())) break;
    if (request.spent() && !absl::IsUnknown(best.plan.status())) break;
    if (effort < options.effort && !starts_lower) continue;
    PlanOptions own = options;
    own.effort = effort;
    TakenPlan found = PlanBestChoice(manifest, own, limits, pool, request);
    if (absl::IsCancelled(found.plan.status())) return found;
    const bool is_better =
        found.plan.ok() && (!best.plan.ok() || RatioOf(*found.plan) < RatioOf(*best.plan));
    if (is_better || absl::IsUnknown(best.plan.status())) best = std::move(found);
  }
  return best;
}

}  // namespace

absl::StatusOr<Plan> PlanSelection(const Manifest& manifest, const PlanOptions& options,
                                   const PassLimits& limits, const Allowance& allowance) {
  const absl::StatusOr<WaitingPool> pool =
      WaitingPool::Create(manifest, options, limits.longest, allowance.stop());
  if (!pool.ok()) return pool.status();
  auto [best, taken] = PlanOfAnyEffort(manifest, options, limits, *pool, allowance);
  if (absl::IsCancelled(best.status())) return best;
  if (!best.ok()) {
    const uint32_t size = options.mini_batches.size;
    if (size == 0 || taken.size() % size == 0) return best;
    return absl::InvalidArgumentError(absl::StrCat(
        "mini_batches.size is ", size, ", which does not divide the ", taken.size(),
        " sequences that first in, first out takes where ", TargetOf(*options.selection)));
  }
  Complete(*pool, taken, *best);
  return best;
}

}  // namespace batchplan
