#include "server/planner/selection/plan_selection.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/planner/allowance.h"
#include "server/planner/cancellation.h"
#include "server/planner/mini_batches.h"
#include "server/planner/plan_whole.h"
#include "server/planner/selection/choice.h"
#include "server/planner/selection/step_estimate.h"
#include "server/planner/selection/waiting_pool.h"

namespace batchplan {
namespace {

// The choices that are planned beside first in, first out, of so many sequences.
size_t PlannedChoices(Effort effort, uint64_t sequences) {
  const size_t most = effort == Effort::kThorough ? 64 : effort == Effort::kDefault ? 32 : 1;
  return std::clamp<size_t>(1000 / sequences, 1, most);
}

// Once planning them took as much as first in, first out did, and this, no more are planned.
uint64_t PlannedTicks(Effort effort) {
  return effort == Effort::kThorough ? 400'000'000 : 40'000'000;
}

// How often a step is estimated, by what that takes for so many sequences.
uint64_t Evaluations(Effort effort, uint64_t sequences) {
  constexpr uint64_t kTicksASequence = 400;
  const uint64_t ticks = effort == Effort::kFast       ? 10'000'000
                         : effort == Effort::kThorough ? 400'000'000
                                                       : 30'000'000;
  return std::clamp<uint64_t>(ticks / (kTicksASequence * sequences), 8, 2000);
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
  absl::StatusOr<Plan> plan = PlanWhole(part, options, limits, allowance);
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

UnitCosts CostsOf(const Manifest& manifest, const CostModel& model, const SequenceLists& units) {
  UnitCosts costs;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    double all = 0;
    double longest = 0;
    for (const SequenceIndex sequence : units[unit]) {
      const double length = manifest.lengths[sequence.value()];
      const double cost = (model.per_token + model.per_token_squared * length) * length;
      all += cost;
      longest = std::max(longest, cost);
    }
    costs.all.push_back(all);
    costs.longest.push_back(longest);
  }
  return costs;
}

// The sequences of what may be better than `to_beat`, the ratio of first in, first out as planned,
// the most promising first.
std::vector<std::vector<SequenceIndex>> BetterChoices(const Manifest& manifest,
                                                      const PlanOptions& options,
                                                      const PassLimits& limits,
                                                      const WaitingPool& pool, double to_beat,
                                                      const Allowance& allowance) {
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
  const std::optional<StepEstimate> estimate =
      StepEstimate::Create(manifest, options, limits, planned, groups, allowance);
  if (!estimate) return {};
  const UnitCosts costs = CostsOf(manifest, options.cost_model, pool.units());
  const size_t sequences = pool.Sequences(pool.first_choice()).size();
  std::vector<std::vector<SequenceIndex>> better;
  for (const std::vector<uint32_t>& chosen :
       Choices(pool, costs.all, costs.longest, *estimate, to_beat,
               Evaluations(options.effort, sequences), PlannedChoices(options.effort, sequences),
               allowance)) {
    better.push_back(pool.Sequences(chosen));
  }
  return better;
}

}  // namespace

absl::StatusOr<Plan> PlanSelection(const Manifest& manifest, const PlanOptions& options,
                                   const PassLimits& limits, const std::stop_token& stop) {
  const absl::StatusOr<WaitingPool> pool = WaitingPool::Create(manifest, options, limits.longest);
  if (!pool.ok()) return pool.status();
  std::vector<SequenceIndex> taken = pool->Sequences(pool->first_choice());
  const Allowance allowance(AllowanceOf(options.effort), stop);
  absl::StatusOr<Plan> best = PlanTaken(manifest, options, limits, taken, allowance);
  const double to_beat = best.ok() ? RatioOf(*best) : std::numeric_limits<double>::infinity();
  std::vector<std::vector<SequenceIndex>> choices =
      BetterChoices(manifest, options, limits, *pool, to_beat, Allowance(stop));
  const Allowance others(AllowanceOf(options.effort), stop);
  const uint64_t most = std::max(allowance.used(), PlannedTicks(options.effort));
  for (size_t i = 0; i < choices.size() && others.used() < most && !stop.stop_requested(); ++i) {
    absl::StatusOr<Plan> plan = PlanTaken(manifest, options, limits, choices[i], others);
    if (!plan.ok() || (best.ok() && RatioOf(*plan) >= RatioOf(*best))) continue;
    best = std::move(plan);
    taken = std::move(choices[i]);
  }
  if (absl::Status status = CheckStop(others); !status.ok()) return status;
  if (!best.ok()) return best;
  Complete(*pool, taken, *best);
  return best;
}

}  // namespace batchplan
