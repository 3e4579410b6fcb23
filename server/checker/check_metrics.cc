#include "server/checker/check_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/checker/check_decisions.h"
#include "server/checker/load_costs.h"
#include "server/checker/sequence_cost.h"
#include "server/checker/shared_paths.h"
#include "server/checker/stated_metrics.h"
#include "server/checker/step_events.h"
#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

// What one micro-batch computes.
struct RankWork {
  uint64_t true_tokens = 0;
  // The part of true_tokens that the row holds; shared tokens are there once.
  uint64_t laid_tokens = 0;
  uint64_t aligned_tokens = 0;
  uint64_t scheduled_tokens = 0;
  // The budget of its ranks; for a sequence alone above the budget, the width of its row.
  double capacity = 0;
  bool over_budget = false;
  // The cost on each of its ranks, without loads that have phases of their own.
  double cost = 0;
};

// Sums over the pass.
struct Totals {
  uint64_t true_tokens = 0;
  uint64_t laid_tokens = 0;
  uint64_t aligned_tokens = 0;
  uint64_t scheduled_tokens = 0;
  // If sequences share tokens: each mini-batch as a single row, and what that costs one rank
  // without exchange.
  uint64_t unique_tokens = 0;
  double unique_computation = 0;
  double capacity = 0;
  uint64_t slots = 0;
  // The micro-batches above the budget, and the tokens of all others.
  uint64_t over_budget = 0;
  uint64_t tokens_within = 0;
  // The step time of each mini-batch; `step` is their sum.
  std::vector<double> step_times;
  StepTime step;
  // Sums over mini-batches.
  double most_loaded_tokens = 0;
  double most_loaded_cost = 0;
  double rank_cost = 0;  // of all ranks together
  // How full each micro-batch is that is not empty.
  std::vector<double> filled;
};

bool IsDynamic(const PassUnderCheck& pass) { return !pass.pass_demands.groups.empty(); }

// How many run side by side: the ranks of a pool, or the groups if all have one size.
size_t RanksOf(const PassUnderCheck& pass) {
  return IsDynamic(pass) ? pass.demands.pool : pass.demands.data_parallel;
}

// The size of a micro-batch's group, and the multiple to which it rounds lengths.
GroupDemands GroupOf(const PassUnderCheck& pass, const Microbatch& microbatch) {
  if (!IsDynamic(pass)) {
    return {.ranks = pass.request.topology.context_parallel,
            .length_multiple = pass.pass_demands.length_multiple};
  }
  return *std::ranges::find(pass.pass_demands.groups, microbatch.ranks, &GroupDemands::ranks);
}

RankWork WorkOf(const PassUnderCheck& pass, const LoadCosts& loads, size_t m,
                const Microbatch& microbatch) {
  const CostModel& model = pass.request.cost_model;
  const GroupDemands group = GroupOf(pass, microbatch);
  const uint64_t width = pass.plan.row_widths[m];
  const bool padded = pass.options.layout == Layout::kPadded;
  const double budget = static_cast<double>(pass.options.max_tokens_per_microbatch) * group.ranks /
                        pass.request.topology.context_parallel;
  RankWork work;
  work.over_budget = static_cast<double>(width) > budget;
  work.capacity = work.over_budget ? static_cast<double>(width) : budget;
  work.cost = model.per_microbatch + loads.InRow(m);
  for (size_t p = microbatch.begin; p < microbatch.end; ++p) {
    const uint32_t length = pass.plan.sequence_lengths[p];
    const uint32_t shared = pass.paths == nullptr ? 0 : pass.plan.shared_tokens[p];
    const uint64_t aligned =
        pass.paths == nullptr ? AlignedLength(length, group.length_multiple) : length;
    work.true_tokens += length;
    work.laid_tokens += length - shared;
    work.aligned_tokens += aligned - shared;
    work.cost +=
        SequenceCost(model, static_cast<double>(padded ? width : aligned), shared, group.ranks);
  }
  work.scheduled_tokens = padded ? microbatch.size() * width : width;
  if (!padded) {
    work.cost +=
        SharedCost(model, static_cast<double>(width - work.aligned_tokens), 0, group.ranks);
  }
  return work;
}

// The time of the phases, one after the other, and then of the rows. In lockstep, ranks wait for
// each other in every phase. There are no phases with pipelines or with groups that differ in size.
StepTime TimeOf(const PassUnderCheck& pass, const LoadCosts& loads, size_t first,
                std::vector<TimedMicrobatch> rows, size_t ranks, size_t slots) {
  StepTime all;
  for (const LoadPhase& phase : loads.phases()) {
    if (pass.request.synchronization == Synchronization::kLockstep) {
      std::vector<TimedMicrobatch> timed = rows;
      for (size_t i = 0; i < timed.size(); ++i) timed[i].cost = phase.costs[first + i];
      all.time += StepTimeOf(pass, timed, ranks, slots).time;
      continue;
    }
    for (size_t i = 0; i < rows.size(); ++i) rows[i].cost += phase.costs[first + i];
  }
  const StepTime of_rows = StepTimeOf(pass, rows, ranks, slots);
  return {.time = all.time + of_rows.time,
          .least_stage_work = of_rows.least_stage_work,
          .most_stage_work = of_rows.most_stage_work};
}

// Adds the mini-batch of micro-batches [begin, end).
void AddMiniBatch(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches,
                  const LoadCosts& loads, size_t begin, size_t end, Totals& totals) {
  const size_t ranks = RanksOf(pass);
  const size_t slots = pass.plan.microbatches_per_rank[microbatches[begin].mini_batch];
  std::vector<double> tokens(ranks, 0);
  std::vector<double> costs(ranks, 0);
  std::vector<TimedMicrobatch> timed;
  timed.reserve(end - begin);
  for (size_t m = begin; m < end; ++m) {
    const Microbatch& microbatch = microbatches[m];
    const RankWork work = WorkOf(pass, loads, m, microbatch);
    totals.true_tokens += work.true_tokens;
    totals.laid_tokens += work.laid_tokens;
    totals.aligned_tokens += work.aligned_tokens;
    totals.scheduled_tokens += work.scheduled_tokens;
    totals.capacity += work.capacity;
    totals.over_budget += work.over_budget ? 1 : 0;
    totals.tokens_within += work.over_budget ? 0 : work.laid_tokens;
    if (!microbatch.empty()) {
      totals.filled.push_back(static_cast<double>(work.laid_tokens) / work.capacity);
    }
    double cost = work.cost;
    for (const LoadPhase& phase : loads.phases()) {
      // A dealt load costs every rank of its slot alike, and so says nothing of one rank.
      if (!phase.dealt) cost += phase.costs[m];
    }
    for (size_t rank = microbatch.rank; rank < microbatch.rank + microbatch.ranks; ++rank) {
      tokens[rank] += static_cast<double>(work.aligned_tokens) / microbatch.ranks;
      costs[rank] += cost;
    }
    timed.push_back({.rank = microbatch.rank,
                     .ranks = microbatch.ranks,
                     .slot = microbatch.slot,
                     .cost = work.cost});
  }
  totals.slots += slots;
  totals.most_loaded_tokens += *std::ranges::max_element(tokens);
  totals.most_loaded_cost += *std::ranges::max_element(costs);
  totals.rank_cost += std::accumulate(costs.begin(), costs.end(), 0.0);
  const StepTime step = TimeOf(pass, loads, begin, std::move(timed), ranks, slots);
  totals.step.time += step.time;
  totals.step_times.push_back(step.time);
  totals.step.least_stage_work += step.least_stage_work;
  totals.step.most_stage_work += step.most_stage_work;
}

// Adds the unique tokens of the mini-batch of micro-batches [begin, end). `tokens` may hold any
// union.
void AddUnique(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches,
               size_t begin, size_t end, PathUnion& tokens, Totals& totals) {
  const CostModel& model = pass.request.cost_model;
  std::vector<SharedPaths::Interval> path;
  tokens.Clear();
  const size_t first = microbatches[begin].begin;
  const size_t last = microbatches[end - 1].end;
  double squares = 0;
  uint64_t alone = 0;
  for (size_t p = first; p < last; ++p) {
    const uint32_t length = pass.plan.sequence_lengths[p];
    const uint32_t sequence = pass.plan.sequence_index[p];
    totals.unique_computation += pass.loads.CostOf(sequence, GroupOf(pass, {}).ranks);
    if (pass.RunsAlone(sequence)) {
      alone += length;
      squares += static_cast<double>(length) * length;
    } else {
      pass.paths->Read(sequence, length, path);
      tokens.Add(path);
    }
  }
  const uint64_t unique = alone + tokens.tokens();
  totals.unique_tokens += unique;
  totals.unique_computation += SharedCost(model, static_cast<double>(unique),
                                          squares + tokens.squares(), GroupOf(pass, {}).ranks) +
                               model.per_sequence * static_cast<double>(last - first);
}

// Relies on the micro-batches of a mini-batch being consecutive.
Totals Measure(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches,
               const LoadCosts& loads) {
  Totals totals;
  std::optional<PathUnion> tokens;
  if (pass.paths != nullptr) tokens.emplace(*pass.paths);
  for (size_t begin = 0; begin < microbatches.size();) {
    size_t end = begin;
    while (end < microbatches.size() &&
           microbatches[end].mini_batch == microbatches[begin].mini_batch) {
      ++end;
    }
    AddMiniBatch(pass, microbatches, loads, begin, end, totals);
    if (tokens) AddUnique(pass, microbatches, begin, end, *tokens, totals);
    begin = end;
  }
  return totals;
}

// The cost of the sequences without exchange, divided evenly among all ranks.
double IdealComputation(const PassUnderCheck& pass, const GroupDemands& least) {
  double computation = 0;
  const std::vector<uint32_t>& lengths = pass.demands.planned_lengths;
  for (uint32_t sequence = 0; sequence < lengths.size(); ++sequence) {
    if (lengths[sequence] == 0) continue;  // dropped
    const uint64_t aligned = AlignedLength(lengths[sequence], least.length_multiple);
    computation +=
        ComputationCost(pass.request.cost_model, static_cast<double>(aligned), least.ranks) +
        pass.loads.CostOf(sequence, least.ranks);
  }
  return computation * least.ranks /
         (static_cast<double>(pass.demands.data_parallel) * pass.request.topology.context_parallel);
}

// The smallest size of groups that can hold a sequence; the largest size if groups of that size do
// not add up to the pool.
const GroupDemands& LeastSize(const PassUnderCheck& pass) {
  for (const GroupDemands& size : pass.pass_demands.groups) {
    if (size.length_limit == 0) continue;
    if (pass.demands.pool % size.ranks == 0) return size;
    break;
  }
  return pass.pass_demands.groups.back();
}

// For a pool: the fewest slots that hold the tokens of each mini-batch, aligned as `least` does.
double IdealSlots(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches,
                  const GroupDemands& least) {
  std::vector<double> tokens(pass.pass_demands.mini_batches, 0);
  for (const Microbatch& microbatch : microbatches) {
    for (size_t p = microbatch.begin; p < microbatch.end; ++p) {
      tokens[microbatch.mini_batch] +=
          static_cast<double>(AlignedLength(pass.plan.sequence_lengths[p], least.length_multiple));
    }
  }
  const double room =
      static_cast<double>(pass.demands.data_parallel) * pass.options.max_tokens_per_microbatch;
  double slots = 0;
  for (const double all : tokens) slots += std::ceil(all / room);
  return slots;
}

double IdealStepTime(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches,
                     double unique_computation) {
  const double per_microbatch = pass.request.cost_model.per_microbatch;
  const double stages = pass.request.topology.pipeline_parallel;
  if (IsDynamic(pass)) {
    const GroupDemands& least = LeastSize(pass);
    return (IdealComputation(pass, least) +
            per_microbatch * IdealSlots(pass, microbatches, least)) /
           stages;
  }
  const double fewest = static_cast<double>(pass.plan.metrics.lower_bound_microbatches) /
                        static_cast<double>(pass.demands.data_parallel);
  const double computation =
      pass.paths == nullptr ? IdealComputation(pass, GroupOf(pass, {}))
                            : unique_computation / static_cast<double>(pass.demands.data_parallel);
  return (computation + per_microbatch * fewest) / stages;
}

absl::Status CheckCounts(const PassUnderCheck& pass, const Totals& totals) {
  const PlanMetrics& metrics = pass.plan.metrics;
  const uint64_t naive_width = pass.manifest.pad_to != 0
                                   ? pass.manifest.pad_to
                                   : *std::ranges::max_element(pass.demands.planned_lengths);
  for (const absl::Status& status : {
           CheckExact(pass, "microbatches", metrics.microbatches, pass.plan.row_widths.size()),
           CheckExact(pass, "true_tokens", metrics.true_tokens, totals.true_tokens),
           CheckExact(pass, "aligned_tokens", metrics.aligned_tokens, totals.aligned_tokens),
           CheckExact(pass, "laid_tokens", metrics.laid_tokens,
                      pass.paths == nullptr ? 0 : totals.laid_tokens),
           CheckExact(pass, "unique_tokens", metrics.unique_tokens, totals.unique_tokens),
           CheckExact(pass, "scheduled_tokens", metrics.scheduled_tokens, totals.scheduled_tokens),
           CheckExact(pass, "naive_tokens", metrics.naive_tokens,
                      pass.demands.planned_sequences * naive_width),
       }) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckFinite(const PassUnderCheck& pass) {
  const PlanMetrics& metrics = pass.plan.metrics;
  for (double value :
       {metrics.bin_utilization, metrics.aligned_bin_utilization, metrics.waste_ratio,
        metrics.bin_balance, metrics.packing_efficiency, metrics.padding_removed,
        metrics.rank_token_imbalance, metrics.rank_cost_imbalance, metrics.ideal_step_time,
        metrics.lower_bound_step_time, metrics.predicted_step_time, metrics.step_efficiency,
        metrics.pipeline_bubble}) {
    if (!std::isfinite(value)) return Violation(Field(pass, "metrics"), " has the value ", value);
  }
  return absl::OkStatus();
}

// The fewest micro-batches (for a pool: slots) that hold the tokens, over those of the plan.
double PackingEfficiency(const PassUnderCheck& pass, const Totals& totals) {
  const uint64_t budget = pass.options.max_tokens_per_microbatch;
  const uint64_t room = IsDynamic(pass) ? pass.demands.data_parallel * budget : budget;
  const uint64_t needed =
      totals.over_budget + totals.tokens_within / room + (totals.tokens_within % room == 0 ? 0 : 1);
  const uint64_t had = IsDynamic(pass) ? totals.slots : pass.plan.row_widths.size();
  return static_cast<double>(needed) / static_cast<double>(had);
}

absl::Status CheckRatios(const PassUnderCheck& pass, const Totals& totals) {
  const PlanMetrics& metrics = pass.plan.metrics;
  if (!(metrics.bin_utilization > 0 && metrics.bin_utilization <= 1)) {
    return Violation(Field(pass, "metrics.bin_utilization"), " is ", metrics.bin_utilization,
                     ", outside (0, 1]");
  }
  const double utilization = static_cast<double>(totals.laid_tokens) / totals.capacity;
  const double scheduled_share =
      static_cast<double>(metrics.scheduled_tokens) / static_cast<double>(metrics.naive_tokens);
  const auto ranks = static_cast<double>(RanksOf(pass));
  const double mean_tokens = static_cast<double>(totals.aligned_tokens) / ranks;
  // If all loads are dealt and nothing else costs anything, no rank has a cost of its own.
  const double cost_imbalance =
      totals.rank_cost == 0 ? 1 : totals.most_loaded_cost / (totals.rank_cost / ranks);
  for (const absl::Status& status : {
           CheckNear(pass, "bin_utilization", metrics.bin_utilization, utilization, kTolerance),
           CheckNear(pass, "aligned_bin_utilization", metrics.aligned_bin_utilization,
                     static_cast<double>(totals.aligned_tokens) / totals.capacity, kTolerance),
           CheckNear(pass, "waste_ratio", metrics.waste_ratio, 1 - utilization, kTolerance),
           CheckNear(pass, "bin_balance", metrics.bin_balance, BinBalance(totals.filled),
                     kTolerance),
           CheckNear(pass, "packing_efficiency", metrics.packing_efficiency,
                     PackingEfficiency(pass, totals), kTolerance),
           CheckNear(pass, "padding_removed", metrics.padding_removed, 1 - scheduled_share,
                     kTolerance * (1 + scheduled_share)),
           CheckNear(pass, "rank_token_imbalance", metrics.rank_token_imbalance,
                     totals.most_loaded_tokens / mean_tokens, kTolerance * ranks),
           CheckNear(pass, "rank_cost_imbalance", metrics.rank_cost_imbalance, cost_imbalance,
                     kTolerance * ranks),
       }) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckTimes(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches,
                        const Totals& totals) {
  const StepTime& step = totals.step;
  const PlanMetrics& metrics = pass.plan.metrics;
  const double ideal = IdealStepTime(pass, microbatches, totals.unique_computation);
  const bool is_pipeline = pass.request.topology.pipeline_parallel > 1 && step.time > 0;
  const double least_bubble = is_pipeline ? 1 - step.most_stage_work / step.time : 0;
  const double most_bubble = is_pipeline ? 1 - step.least_stage_work / step.time : 0;
  for (const absl::Status& status : {
           CheckNear(pass, "predicted_step_time", metrics.predicted_step_time, step.time,
                     kTolerance * step.time),
           CheckNear(pass, "ideal_step_time", metrics.ideal_step_time, ideal, kTolerance * ideal),
           CheckNear(pass, "step_efficiency", metrics.step_efficiency,
                     metrics.predicted_step_time == 0
                         ? 1
                         : metrics.ideal_step_time / metrics.predicted_step_time,
                     kTolerance),
           CheckNear(pass, "pipeline_bubble", metrics.pipeline_bubble,
                     std::clamp(metrics.pipeline_bubble, least_bubble, most_bubble), kTolerance),
       }) {
    if (!status.ok()) return status;
  }
  return CheckBounds(pass);
}

}  // namespace

absl::Status CheckMetrics(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches) {
  const LoadCosts loads(pass, microbatches);
  const Totals totals = Measure(pass, microbatches, loads);
  if (absl::Status status = CheckCounts(pass, totals); !status.ok()) return status;
  if (absl::Status status = CheckFinite(pass); !status.ok()) return status;
  if (absl::Status status = CheckRatios(pass, totals); !status.ok()) return status;
  if (absl::Status status = CheckTimes(pass, microbatches, totals); !status.ok()) return status;
  if (absl::Status status = loads.CheckMetrics(totals.step.time); !status.ok()) return status;
  return CheckDecisions(pass, totals.step_times);
}

}  // namespace batchplan::checker
