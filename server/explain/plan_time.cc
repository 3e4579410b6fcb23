#include "server/explain/plan_time.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "server/planner/pass/pass.h"
#include "server/planner/time/schedule.h"

namespace batchplan::explain {
namespace {

// What the micro-batches of a mini-batch cost, in units.
struct Costs {
  // By micro-batch, its row.
  std::vector<double> rows;
  // Of the mean rank: rows with their padding, and that padding alone.
  double work = 0;
  double padding = 0;
};

std::vector<SequenceIndex> MicrobatchAt(const PassPlan& plan, size_t m) {
  std::vector<SequenceIndex> sequences;
  sequences.reserve(plan.microbatch_offsets[m + 1] - plan.microbatch_offsets[m]);
  for (uint32_t i = plan.microbatch_offsets[m]; i < plan.microbatch_offsets[m + 1]; ++i) {
    sequences.emplace_back(plan.sequence_index[i]);
  }
  return sequences;
}

// A row of these sequences without any padding.
double WithoutPadding(const Pass& pass, std::span<const SequenceIndex> row, size_t size) {
  const CostFunction& cost = pass.cost(size);
  if (pass.options().layout != Layout::kPadded) return cost.ToUnits(pass.CostOf(row, 0, size));
  Cost sum = cost.OfMicrobatch();
  for (const SequenceIndex sequence : row) {
    sum += cost.OfSequence(pass.aligned(size)[sequence.value()]);
  }
  return cost.ToUnits(sum);
}

// What the phases of loads cost the mean rank.
double MeanOfPhases(const Pass& pass, std::span<const SequenceIndex> sequences) {
  double units = 0;
  for (const LoadPhase& phase : pass.loads().phases()) {
    for (const SequenceIndex sequence : sequences) {
      units += phase.per_unit * pass.loads().given().Of(phase.load, sequence);
    }
  }
  return units / pass.ranks();
}

Costs CostsOf(const Pass& pass, const PassPlan& plan, size_t begin, size_t end) {
  Costs costs;
  const double ranks = pass.sizes_differ() ? pass.pool() : pass.ranks();
  costs.rows.reserve(end - begin);
  for (size_t m = begin; m < end; ++m) {
    const std::vector<SequenceIndex> row = MicrobatchAt(plan, m);
    const uint32_t group = pass.sizes_differ() ? plan.context_sizes[m] : 1;
    const size_t size = pass.sizes_differ() ? pass.SizeOf(group) : 0;
    const double own = pass.cost(size).ToUnits(pass.CostOf(row, plan.row_widths[m], size));
    costs.rows.push_back(own);
    costs.work += own * group / ranks;
    costs.padding += (own - WithoutPadding(pass, row, size)) * group / ranks;
  }
  return costs;
}

// The slots of a mini-batch whose costliest micro-batch is one sequence.
void AddLoneSequences(const Pass& pass, const PassPlan& plan, uint32_t mini_batch, size_t begin,
                      uint32_t slots, std::span<const double> rows, PlanTime& time) {
  for (uint32_t slot = 0; slot < slots; ++slot) {
    size_t most = slot;
    double sum = 0;
    for (size_t m = slot; m < rows.size(); m += slots) {
      sum += rows[m];
      if (rows[m] > rows[most]) most = m;
    }
    const size_t at = plan.microbatch_offsets[begin + most];
    if (plan.microbatch_offsets[begin + most + 1] != at + 1) continue;
    time.lone_sequences.push_back({.mini_batch = mini_batch,
                                   .slot = slot,
                                   .sequence = plan.sequence_index[at],
                                   .length = plan.sequence_lengths[at],
                                   .waiting = rows[most] - sum / pass.ranks()});
  }
}

// What rounding up the lengths of the plan adds to the ideal step.
double AligningOf(const Pass& pass, const PassPlan& plan) {
  if (pass.prefixes() != nullptr) return 0;
  const CostFunction& cost = pass.computation();
  double units = 0;
  for (size_t i = 0; i < plan.sequence_index.size(); ++i) {
    units += cost.ToUnits(cost.OfComputation(pass.aligned()[plan.sequence_index[i]]) -
                          cost.OfComputation(plan.sequence_lengths[i]));
  }
  const double ranks = pass.sizes_differ()
                           ? static_cast<double>(pass.pool()) / pass.sizes().front().ranks
                           : pass.ranks();
  return units / ranks;
}

// What exchange adds to rows of sequences that share prefixes, for the mean rank.
double ExchangeOfBranches(const Pass& pass, const PassPlan& plan) {
  double units = 0;
  for (size_t i = 0; i < plan.shared_tokens.size(); ++i) {
    const uint32_t length = pass.aligned()[plan.sequence_index[i]];
    const uint32_t shared = plan.shared_tokens[i];
    units += pass.cost().ToUnits(pass.cost().OfBranch(length, shared) -
                                 pass.cost().OfBranchComputation(length, shared));
  }
  return units / pass.ranks();
}

// The part of the model that the busiest stage has.
double LargestStage(const PlanOptions& options, const PassOptions& pass) {
  const Pipeline pipeline = PipelineOf(options.topology, options.pipeline, pass.forward_only);
  double largest = 0;
  for (uint32_t stage = 0; stage < pipeline.stages; ++stage) {
    largest = std::max(largest, pipeline.StageShare(stage));
  }
  return largest;
}

}  // namespace

PlanTime TimeOf(const PlannedPass& planned, const PlannedMiniBatches& mini_batches,
                const PassPlan& plan) {
  const Pass& pass = planned.pass();
  const PlanMetrics& metrics = plan.metrics;
  const double stages = pass.topology().pipeline_parallel;
  PlanTime time;
  time.ideal = metrics.ideal_step_time;
  double work = 0;
  size_t begin = 0;
  double slots = 0;
  for (uint32_t k = 0; k < mini_batches.slots.size(); ++k) {
    size_t end = begin;
    const uint64_t ranks = pass.sizes_differ() ? pass.pool() : pass.ranks();
    for (uint64_t places = mini_batches.slots[k] * ranks; places > 0; ++end) {
      places -= pass.sizes_differ() ? plan.context_sizes[end] : 1;
    }
    const Costs costs = CostsOf(pass, plan, begin, end);
    work += costs.work + MeanOfPhases(pass, mini_batches.sequences[k]);
    time.padding += costs.padding;
    slots += mini_batches.slots[k];
    if (!pass.sizes_differ() && pass.pipeline() == nullptr &&
        pass.synchronization() == Synchronization::kLockstep) {
      AddLoneSequences(pass, plan, k, begin, mini_batches.slots[k], costs.rows, time);
    }
    begin = end;
  }
  std::ranges::stable_sort(time.lone_sequences, std::ranges::greater(), &LoneSequence::waiting);
  time.aligning = AligningOf(pass, plan) / stages;
  work /= stages;
  time.padding /= stages;
  if (!pass.sizes_differ()) {
    const double fewest = static_cast<double>(metrics.lower_bound_microbatches) / pass.ranks();
    time.more_slots =
        std::max(0.0, slots - fewest) * pass.cost().ToUnits(pass.cost().OfMicrobatch()) / stages;
  }
  time.beyond_ideal = std::max(0.0, work - time.ideal - time.padding - time.more_slots);
  if (!plan.shared_tokens.empty()) {
    const double exchange = ExchangeOfBranches(pass, plan) / stages;
    time.repeated = time.beyond_ideal - std::min(time.beyond_ideal, exchange);
  }
  double left = std::max(0.0, metrics.predicted_step_time - work);
  if (pass.pipeline() != nullptr) {
    time.bubbles = std::min(left, metrics.pipeline_bubble * metrics.predicted_step_time);
    left -= time.bubbles;
    // Some rank has no less than the mean rank's work, and its busiest stage the largest part of
    // it.
    const double largest = stages * LargestStage(planned.options(), pass.options());
    time.unequal_stages = std::clamp(time.ideal * (largest - 1), 0.0, left);
    left -= time.unequal_stages;
  }
  time.waiting = left;
  return time;
}

}  // namespace batchplan::explain
