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
#include "server/planner/efforts.h"
#include "server/planner/plan_whole.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/cancellation.h"
#include "server/planner/request/loads.h"
#include "server/planner/request/sequence_groups.h"
#include "server/planner/request/shared_prefixes.h"
#include "server/planner/split/choice.h"
#include "server/planner/split/mini_batches.h"
#include "server/planner/split/step_estimate.h"
#include "server/planner/split/waiting_pool.h"

namespace batchplan {
namespace {

// The sequences and micro-batches of a plan, over all passes; `sequences` if there is no plan.
uint64_t SizeOf(const absl::StatusOr<Plan>& plan, uint64_t sequences) {
  if (!plan.ok()) return sequences;
  uint64_t size = 0;
  for (const PassPlan& pass : plan->passes) {
    size += pass.sequence_index.size() + pass.row_widths.size();
  }
  return size;
}

// How many choices are planned beside first in, first out. `size` is that of the latter's plan,
// times the stages. Limited, because much of the work of planning is on no allowance.
size_t PlannedChoices(Effort effort, uint64_t size) {
  const size_t most = effort == Effort::kThorough ? 64 : effort == Effort::kDefault ? 32 : 1;
  return std::clamp<size_t>(1500 / size, 1, most);
}

// Choices are planned until their ticks reach those of first in, first out, and at least this
// number.
uint64_t PlannedTicks(Effort effort) {
  return effort == Effort::kThorough ? 400'000'000 : 40'000'000;
}

// How many estimates are made if each costs `ticks_each`: at least a few, unless they are very
// dear.
uint64_t Evaluations(Effort effort, uint64_t ticks_each) {
  constexpr uint64_t kMostTicks = 400'000'000;
  const uint64_t ticks = effort == Effort::kFast       ? 10'000'000
                         : effort == Effort::kThorough ? kMostTicks
                                                       : 30'000'000;
  const uint64_t most = std::clamp<uint64_t>(ticks / ticks_each, 8, 2000);
  return std::min(most, kMostTicks / ticks_each);
}

template <typename Value>
std::vector<Value> At(std::span<const Value> values, std::span<const SequenceIndex> taken) {
  std::vector<Value> at;
  if (values.empty()) return at;
  at.reserve(taken.size());
  for (const SequenceIndex sequence : taken) at.push_back(values[sequence.value()]);
  return at;
}

// A plan of these sequences, ascending, as if they were the manifest; its positions are the
// manifest's.
absl::StatusOr<Plan> PlanTaken(const Manifest& manifest, const PlanOptions& options,
                               const PassLimits& limits, const SharedPrefixes& prefixes,
                               std::span<const SequenceIndex> taken, const Allowance& allowance) {
  const std::vector<uint32_t> lengths = At(manifest.lengths, taken);
  const std::vector<uint32_t> group_ids = At(manifest.group_ids, taken);
  const std::vector<uint32_t> ranks = At(manifest.ranks, taken);
  const std::vector<uint32_t> kinds = At(manifest.kinds, taken);
  const PrefixRelations relations = prefixes.Among(taken);
  const LoadsTaken loads(manifest, taken);
  const Manifest part = {.lengths = lengths,
                         .group_ids = group_ids,
                         .pad_to = manifest.pad_to,
                         .ranks = ranks,
                         .shared_prefixes = relations.prefixes,
                         .shared_with = relations.with,
                         .loads = loads.loads(),
                         .items = loads.items(),
                         .kinds = kinds};
  absl::StatusOr<Plan> plan = PlanAtEffort(part, options, limits, allowance);
  if (!plan.ok()) return plan;
  for (PassPlan& pass : plan->passes) {
    for (LoadRanks& dealt : pass.item_ranks) {
      dealt.ranks = loads.OfAll(dealt.load, dealt.ranks);
    }
  }
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

// Completes a plan of `taken` with the deferred and the excluded sequences.
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

// By unit: its cost, and that of its longest sequence, each on one rank.
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

// The sequences of the choices that may be better than the plan of first in, first out, the most
// promising first.
std::vector<std::vector<SequenceIndex>> BetterChoices(
    const Manifest& manifest, const PlanOptions& options, const PassLimits& limits,
    const SharedPrefixes& prefixes, const Loads& loads, const WaitingPool& pool,
    const absl::StatusOr<Plan>& first, const Allowance& allowance) {
  // Lengths of all sequences that wait, so that they keep their positions.
  PlannedLengths planned;
  planned.lengths.assign(manifest.lengths.size(), 0);
  for (const SequenceIndex sequence : pool.units().all()) {
    const uint32_t i = sequence.value();
    planned.lengths[i] = options.overlong == OverlongPolicy::kTruncate
                             ? std::min(manifest.lengths[i], limits.longest.length)
                             : manifest.lengths[i];
  }
  const Groups groups(manifest, options.mini_batches.policy());
  const size_t sequences = pool.Sequences(pool.first_choice()).size();
  const size_t mini_batches = MiniBatchesOf(options.mini_batches, sequences,
                                            pool.certain().size() + pool.first_choice().size());
  const std::optional<StepEstimate> estimate = StepEstimate::Create(
      manifest, options, limits, planned, groups, prefixes, loads, mini_batches, allowance.stop());
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

// A plan of the chosen sequences, or the reason why first in, first out has none.
struct TakenPlan {
  absl::StatusOr<Plan> plan;
  std::vector<SequenceIndex> taken;
};

// The best plan at one effort: of first in, first out, and of the other choices. Each of the two
// parts may spend what `request` has left.
TakenPlan PlanBestChoice(const Manifest& manifest, const PlanOptions& options,
                         const PassLimits& limits, const SharedPrefixes& prefixes,
                         const Loads& loads, const WaitingPool& pool, const Allowance& request) {
  const std::stop_token& stop = request.stop();
  std::vector<SequenceIndex> taken = pool.Sequences(pool.first_choice());
  const Allowance first(request.left(), stop, kReserve / 4);
  absl::StatusOr<Plan> best = PlanTaken(manifest, options, limits, prefixes, taken, first);
  request.Spend(first.used());
  // Other choices are planned only if one plan is quick: its greedy work is small, and it left
  // something to spend.
  std::vector<std::vector<SequenceIndex>> choices;
  if (GreedyTicks(taken.size(), options.passes.size()) <= kGreedyOnTop && !request.spent()) {
    choices = BetterChoices(manifest, options, limits, prefixes, loads, pool, best, request);
  }
  const Allowance others(request.left(), stop, kReserve / 4);
  const uint64_t most = std::max(first.used(), PlannedTicks(options.effort));
  for (size_t i = 0; i < choices.size() && others.used() < most && !stop.stop_requested(); ++i) {
    absl::StatusOr<Plan> plan = PlanTaken(manifest, options, limits, prefixes, choices[i], others);
    if (!plan.ok() || (best.ok() && RatioOf(*plan) >= RatioOf(*best))) continue;
    best = std::move(plan);
    taken = std::move(choices[i]);
  }
  request.Spend(others.used());
  if (absl::Status status = CheckStop(others); !status.ok()) return {std::move(status), {}};
  return {std::move(best), std::move(taken)};
}

// The best plan of an effort and all lower ones (efforts.h); if they find none, the first that a
// higher effort finds.
TakenPlan PlanOfAnyEffort(const Manifest& manifest, const PlanOptions& options,
                          const PassLimits& limits, const SharedPrefixes& prefixes,
                          const Loads& loads, const WaitingPool& pool, const Allowance& request) {
  TakenPlan best{.plan = absl::UnknownError("not planned"), .taken = {}};
  const auto plan = [&](Effort effort, const Allowance& allowance) {
    if (effort > options.effort && !absl::IsInvalidArgument(best.plan.status())) return false;
    PlanOptions own = options;
    own.effort = effort;
    TakenPlan found = PlanBestChoice(manifest, own, limits, prefixes, loads, pool, allowance);
    const bool is_better =
        found.plan.ok() && (!best.plan.ok() || RatioOf(*found.plan) < RatioOf(*best.plan));
    const bool is_cancelled = absl::IsCancelled(found.plan.status());
    if (is_better || is_cancelled || absl::IsUnknown(best.plan.status())) best = std::move(found);
    return !is_cancelled;
  };
  const size_t passes = options.passes.size();
  // Where one plan takes long, that of the request's own effort must do.
  const size_t taken = pool.Sequences(pool.first_choice()).size();
  const bool is_slow = GreedyTicks(taken, passes) > kGreedyOnTop / 3;
  ForEachEffort(is_slow ? options.effort : Effort::kFast, options.effort,
                GreedyTicks(manifest.lengths.size(), passes), request, plan);
  return best;
}

// Whether mini-batches divide what first in, first out takes.
absl::Status CheckTaken(const PlanOptions& options, size_t sequences, size_t units) {
  const MiniBatching& mini_batches = options.mini_batches;
  const bool counts_groups = mini_batches.group_count > 0;
  const size_t each = counts_groups ? mini_batches.group_count : mini_batches.size;
  const size_t taken = counts_groups ? units : sequences;
  if (each == 0 || taken % each == 0 || mini_batches.last == LastMiniBatch::kSmaller) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(counts_groups ? "mini_batches.group_count is " : "mini_batches.size is ", each,
                   ", which does not divide the ", taken, counts_groups ? " groups" : " sequences",
                   " that first in, first out takes where ", TargetOf(*options.selection)));
}

}  // namespace

absl::StatusOr<Plan> PlanSelection(const Manifest& manifest, const PlanOptions& options,
                                   const PassLimits& limits, const Allowance& request) {
  const Loads loads(manifest);
  const absl::StatusOr<WaitingPool> pool =
      WaitingPool::Create(manifest, options, loads, limits.longest, request.stop());
  if (!pool.ok()) return pool.status();
  // Shared prefixes are truncated with their sequences.
  const SharedPrefixes prefixes(manifest, options.overlong == OverlongPolicy::kTruncate
                                              ? limits.longest.length
                                              : std::numeric_limits<uint32_t>::max());
  auto [best, taken] = PlanOfAnyEffort(manifest, options, limits, prefixes, loads, *pool, request);
  if (absl::IsCancelled(best.status())) return best;
  if (!best.ok()) {
    absl::Status divides =
        CheckTaken(options, taken.size(), pool->certain().size() + pool->first_choice().size());
    return divides.ok() ? best : divides;
  }
  Complete(*pool, taken, *best);
  return best;
}

}  // namespace batchplan
