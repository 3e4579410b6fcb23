#include "server/planner/context/measure_slots.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/context/context_time.h"
#include "server/planner/measure.h"
#include "server/planner/step_clock.h"

namespace batchplan {
namespace {

// Slots from one look for a stop to the next.
constexpr uint32_t kSlotsPerLook = 64;

// What one micro-batch holds.
struct Microbatch {
  uint32_t ranks = 1;
  uint64_t true_tokens = 0;
  uint64_t aligned_tokens = 0;
  // Of each of its ranks.
  Cost cost = 0;
};

Microbatch MicrobatchOf(const Pass& pass, const PassPlan& plan, size_t m) {
  const size_t size = pass.SizeOf(plan.context_sizes[m]);
  Microbatch microbatch{.ranks = plan.context_sizes[m]};
  microbatch.cost = pass.cost(size).OfMicrobatch();
  for (uint32_t i = plan.microbatch_offsets[m]; i < plan.microbatch_offsets[m + 1]; ++i) {
    const uint32_t tokens = pass.aligned(size)[plan.sequence_index[i]];
    microbatch.true_tokens += plan.sequence_lengths[i];
    microbatch.aligned_tokens += tokens;
    microbatch.cost += pass.cost(size).OfSequence(tokens);
  }
  return microbatch;
}

// What the ranks of a pool do in one mini-batch, slot after slot.
struct PoolLoads {
  explicit PoolLoads(uint32_t pool)
      : more_tokens(pool + size_t{1}, 0), more_costs(pool + size_t{1}, 0) {}

  // Appends a slot.
  void Add(std::span<const Microbatch> slot) {
    size_t first = 0;
    for (const Microbatch& group : slot) {
      const size_t end = first + group.ranks;
      const double tokens = static_cast<double>(group.aligned_tokens) / group.ranks;
      more_tokens[first] += tokens;
      more_tokens[end] -= tokens;
      more_costs[first] += group.cost;
      more_costs[end] -= group.cost;
      timed.Add(group.ranks, group.cost);
      first = end;
    }
    timed.Close();
  }

  // What a rank has more than the one before it; costs modulo 2^64.
  std::vector<double> more_tokens;
  std::vector<Cost> more_costs;
  TimedSlots timed;
};

// What bounds the step time of a plan that is measured. Where the two differ by no more than what
// sums of integers in other scales are rounded, they are the same.
double LowerBound(double bound, const PlanMetrics& metrics) {
  constexpr double kRounding = 1e-6;
  const double time = metrics.predicted_step_time;
  return bound > time && bound <= time * (1 + kRounding) ? time : bound;
}

// Over the mini-batches of a pass.
struct Totals {
  double step_time = 0;
  double pipeline_work = 0;
  double bound = 0;
  double busiest_tokens = 0;
  double busiest_cost = 0;
  double cost_of_ranks = 0;
  uint64_t fewest_slots = 0;
  // In which the tokens of the least alignment have room.
  uint64_t ideal_slots = 0;
};

void AddMiniBatch(const Pass& pass, const PoolLoads& loads,
                  std::span<const SequenceIndex> sequences, const Allowance& allowance,
                  Totals& totals) {
  double tokens = 0;  // of a rank
  double most_tokens = 0;
  Cost cost = 0;
  Cost most_cost = 0;
  for (uint32_t rank = 0; rank < pass.pool(); ++rank) {
    tokens += loads.more_tokens[rank];
    most_tokens = std::max(most_tokens, tokens);
    cost += loads.more_costs[rank];
    most_cost = std::max(most_cost, cost);
    totals.cost_of_ranks += static_cast<double>(cost);
  }
  totals.busiest_tokens += most_tokens;
  totals.busiest_cost += static_cast<double>(most_cost);
  const StepDuration step = pass.clock().Of(loads.timed, allowance);
  totals.step_time += pass.pipeline() == nullptr ? static_cast<double>(step.time) : step.makespan;
  totals.pipeline_work += step.work;

  const absl::StatusOr<ContextProblem> problem =
      ContextProblemOf(pass, pass.ItemLists(sequences), allowance);
  if (!problem.ok()) return;
  totals.fewest_slots += FewestContextSlots(*problem);
  totals.bound += static_cast<double>(ContextBound(*problem));
  uint64_t least_tokens = 0;
  for (const SequenceIndex sequence : sequences) least_tokens += pass.aligned(0)[sequence.value()];
  const uint64_t slot =
      uint64_t{pass.topology().data_parallel} * pass.options().max_tokens_per_microbatch;
  totals.ideal_slots += (least_tokens + slot - 1) / slot;
}

}  // namespace

PlanMetrics MeasureSlots(const Manifest& manifest, const Pass& pass,
                         const SequenceLists& mini_batches, const PassPlan& plan,
                         const Allowance& allowance) {
  const double pool = pass.pool();
  const Topology& topology = pass.topology();
  const uint64_t budget = pass.options().max_tokens_per_microbatch;
  PlanMetrics metrics;
  Totals totals;
  std::vector<double> filled;
  uint64_t slots = 0;
  size_t m = 0;
  for (size_t k = 0; k < plan.microbatches_per_rank.size(); ++k) {
    if (allowance.stop_requested()) return metrics;
    PoolLoads loads(pass.pool());
    for (uint32_t s = 0; s < plan.microbatches_per_rank[k]; ++s) {
      if (s % kSlotsPerLook == 0 && allowance.stop_requested()) return metrics;
      std::vector<Microbatch> slot;
      for (uint64_t ranks = 0; ranks < pass.pool(); ++m) {
        slot.push_back(MicrobatchOf(pass, plan, m));
        ranks += slot.back().ranks;
        metrics.true_tokens += slot.back().true_tokens;
        metrics.aligned_tokens += slot.back().aligned_tokens;
        metrics.scheduled_tokens += plan.row_widths[m];
        if (slot.back().true_tokens > 0) {
          filled.push_back(static_cast<double>(slot.back().true_tokens) *
                           topology.context_parallel / slot.back().ranks /
                           static_cast<double>(budget));
        }
      }
      loads.Add(slot);
    }
    slots += plan.microbatches_per_rank[k];
    AddMiniBatch(pass, loads,
                 pass.options().ignore_mini_batches ? mini_batches.all() : mini_batches[k],
                 allowance, totals);
  }

  metrics.naive_tokens =
      uint64_t{manifest.pad_to != 0 ? manifest.pad_to
                                    : *std::max_element(plan.sequence_lengths.begin(),
                                                        plan.sequence_lengths.end())} *
      plan.sequence_lengths.size();
  metrics.microbatches = static_cast<uint32_t>(plan.row_widths.size());
  metrics.lower_bound_microbatches =
      static_cast<uint32_t>(totals.fewest_slots * pass.fewest_groups());
  metrics.certified_optimal = metrics.microbatches == metrics.lower_bound_microbatches;

  const uint64_t slot_room = uint64_t{topology.data_parallel} * budget;
  const auto room = static_cast<double>(slots * slot_room);
  metrics.bin_utilization = static_cast<double>(metrics.true_tokens) / room;
  metrics.aligned_bin_utilization = static_cast<double>(metrics.aligned_tokens) / room;
  metrics.waste_ratio = 1 - metrics.bin_utilization;
  metrics.bin_balance = BinBalance(filled);
  const uint64_t by_volume = (metrics.true_tokens + slot_room - 1) / slot_room;
  metrics.packing_efficiency = static_cast<double>(by_volume) / static_cast<double>(slots);
  metrics.padding_removed =
      1 - static_cast<double>(metrics.scheduled_tokens) / static_cast<double>(metrics.naive_tokens);
  metrics.rank_token_imbalance =
      totals.busiest_tokens * pool / static_cast<double>(metrics.aligned_tokens);
  metrics.rank_cost_imbalance =
      totals.cost_of_ranks == 0 ? 1 : totals.busiest_cost / totals.cost_of_ranks * pool;

  const CostFunction& least = pass.computation();
  double computation = 0;
  for (const uint32_t sequence : plan.sequence_index) {
    computation += static_cast<double>(least.OfComputation(pass.aligned(0)[sequence]));
  }
  metrics.ideal_step_time =
      (least.ToUnits(computation) * pass.sizes().front().ranks / pool +
       least.ToUnits(least.OfMicrobatch()) * static_cast<double>(totals.ideal_slots)) /
      topology.pipeline_parallel;
  metrics.predicted_step_time = pass.cost(0).ToUnits(totals.step_time);
  metrics.lower_bound_step_time =
      LowerBound(std::max(pass.cost(0).ToUnits(totals.bound), metrics.ideal_step_time), metrics);
  if (pass.pipeline() != nullptr && totals.step_time > 0) {
    metrics.pipeline_bubble = 1 - totals.pipeline_work / totals.step_time;
  }
  metrics.step_efficiency =
      metrics.predicted_step_time == 0 ? 1 : metrics.ideal_step_time / metrics.predicted_step_time;
  return metrics;
}

}  // namespace batchplan
