#include "server/planner/measure.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "server/planner/measure_loads.h"
#include "server/planner/pass/mini_batch_tree.h"
#include "server/planner/pass/slot_loads.h"
#include "server/planner/pass/step_time.h"
#include "server/planner/request/lengths.h"
#include "server/planner/time/step_clock.h"

namespace batchplan {
namespace {

// Micro-batches from one look for a stop to the next.
constexpr size_t kMicrobatchesPerLook = 1024;

// A sum of costs: rounded once for ranks, term by term for groups. Published metrics depend on
// these bits.
struct CostSum {
  void Add(Cost cost) {
    exact += cost;
    rounded += static_cast<double>(cost);
  }
  double Of(const Pass& pass) const {
    return pass.sizes_differ() ? rounded : static_cast<double>(exact);
  }

  Cost exact = 0;
  double rounded = 0;
};

// What one micro-batch holds.
struct Microbatch {
  // The ranks that share it; 1 if sizes don't differ.
  uint32_t ranks = 1;
  uint64_t true_tokens = 0;
  // Tokens of its sequences, each shared prefix once.
  uint64_t laid_tokens = 0;
  uint64_t aligned_tokens = 0;
  uint64_t scheduled_tokens = 0;
  // Tokens of the row beyond the budget, for a longer sequence, which runs alone.
  uint64_t above_budget = 0;
  // On each of its ranks, as scheduled.
  Cost cost = 0;
};

// Micro-batch m of the plan. Adds the cost of its sequences without exchange to `computation`.
// If sequences share prefixes, a row lays only the tokens that are not yet in it. The cost of all
// sequences without exchange is then not the sum over micro-batches.
Microbatch MicrobatchOf(const Pass& pass, const PassPlan& plan, size_t m, CostSum& computation) {
  Microbatch microbatch;
  if (pass.sizes_differ()) microbatch.ranks = plan.context_sizes[m];
  const size_t size = pass.sizes_differ() ? pass.SizeOf(microbatch.ranks) : 0;
  const CostFunction& cost = pass.cost(size);
  const uint32_t multiple = pass.sizes()[size].multiple;
  const CostFunction& without_exchange = pass.computation();
  const uint32_t least_multiple = pass.length_multiple();
  Cost sequences = 0;
  for (uint32_t i = plan.microbatch_offsets[m]; i < plan.microbatch_offsets[m + 1]; ++i) {
    // The plan's lengths are read in order, the pass's at random.
    const uint32_t length = plan.sequence_lengths[i];
    const SequenceIndex sequence(plan.sequence_index[i]);
    if (!plan.shared_tokens.empty()) {
      const uint32_t shared = plan.shared_tokens[i];
      microbatch.true_tokens += length;
      microbatch.laid_tokens += length - shared;
      microbatch.aligned_tokens += length - shared;
      sequences += cost.OfBranch(length, shared) + pass.loads().InMicrobatch(sequence);
      continue;
    }
    const uint64_t aligned = AlignUp(length, multiple);
    microbatch.true_tokens += length;
    microbatch.laid_tokens += length;
    microbatch.aligned_tokens += aligned;
    sequences += cost.OfSequence(aligned) + pass.loads().InMicrobatch(sequence);
    computation.Add(without_exchange.OfComputation(AlignUp(length, least_multiple)) +
                    pass.loads().OfAll(sequence));
  }
  const uint64_t width = plan.row_widths[m];
  const uint64_t budget = pass.options().max_tokens_per_microbatch;
  if (!pass.sizes_differ() && width > budget) microbatch.above_budget = width - budget;
  if (pass.options().layout == Layout::kPadded) {
    const uint64_t count = plan.microbatch_offsets[m + 1] - plan.microbatch_offsets[m];
    microbatch.scheduled_tokens = count * width;
    microbatch.cost = count * cost.OfSequence(width) + cost.OfMicrobatch();
  } else {
    microbatch.scheduled_tokens = width;
    microbatch.cost =
        sequences + cost.OfMicrobatch() + cost.OfTail(width - microbatch.aligned_tokens);
  }
  return microbatch;
}

// How full a micro-batch is: on ranks in tokens of the budget, in groups as a part of the group's.
double FilledOf(const Pass& pass, const Microbatch& microbatch) {
  const auto tokens = static_cast<double>(microbatch.laid_tokens);
  const uint64_t budget = pass.options().max_tokens_per_microbatch;
  if (pass.sizes_differ()) {
    return tokens * pass.topology().context_parallel / microbatch.ranks /
           static_cast<double>(budget);
  }
  if (microbatch.above_budget == 0) return tokens;
  return tokens / static_cast<double>(budget + microbatch.above_budget) *
         static_cast<double>(budget);
}

// The number of ranks in metrics of imbalance.
uint32_t MeasuredRanks(const Pass& pass) {
  return pass.sizes_differ() ? pass.pool() : pass.ranks();
}

// Over the mini-batches of a pass.
struct Totals {
  CostSum computation;
  uint64_t laid_tokens = 0;
  CostSum time;
  double makespan = 0;
  double pipeline_work = 0;
  CostSum bound;
  double busiest_tokens = 0;
  CostSum busiest_cost;
  CostSum ranks_cost;
  std::vector<double> filled;
  // Sequences that run alone because they exceed the budget.
  uint64_t alone = 0;
  uint64_t alone_tokens = 0;
  uint64_t above_budget = 0;
  uint64_t slots = 0;
  uint64_t fewest_slots = 0;
  uint64_t ideal_slots = 0;
};

// The loads of ranks in one mini-batch, each as the difference to the rank before.
struct RankLoads {
  explicit RankLoads(uint32_t ranks) : tokens(ranks + size_t{1}, 0), costs(ranks + size_t{1}, 0) {}

  void Add(size_t first, const Microbatch& microbatch) {
    const size_t end = first + microbatch.ranks;
    const double share = static_cast<double>(microbatch.aligned_tokens) / microbatch.ranks;
    tokens[first] += share;
    tokens[end] -= share;
    costs[first] += microbatch.cost;
    costs[end] -= microbatch.cost;
  }

  // Adds the costs of a phase, those of slot s of rank r at r * slots + s.
  void AddCosts(std::span<const Cost> phase, uint32_t slots) {
    for (size_t m = 0; m < phase.size(); ++m) {
      costs[m / slots] += phase[m];
      costs[m / slots + 1] -= phase[m];
    }
  }

  void AddTo(Totals& totals) const {
    double rank_tokens = 0;
    double most_tokens = 0;
    Cost rank_cost = 0;
    Cost most_cost = 0;
    for (size_t rank = 0; rank + 1 < costs.size(); ++rank) {
      rank_tokens += tokens[rank];
      most_tokens = std::max(most_tokens, rank_tokens);
      rank_cost += costs[rank];
      most_cost = std::max(most_cost, rank_cost);
      totals.ranks_cost.Add(rank_cost);
    }
    totals.busiest_tokens += most_tokens;
    totals.busiest_cost.Add(most_cost);
  }

  std::vector<double> tokens;
  std::vector<Cost> costs;  // modulo 2^64
};

void AddMicrobatch(const Pass& pass, const Microbatch& microbatch, PlanMetrics& metrics,
                   Totals& totals) {
  metrics.true_tokens += microbatch.true_tokens;
  metrics.aligned_tokens += microbatch.aligned_tokens;
  totals.laid_tokens += microbatch.laid_tokens;
  metrics.scheduled_tokens += microbatch.scheduled_tokens;
  if (microbatch.above_budget > 0) {
    ++totals.alone;
    totals.alone_tokens += microbatch.true_tokens;
    totals.above_budget += microbatch.above_budget;
  }
  if (microbatch.true_tokens > 0) totals.filled.push_back(FilledOf(pass, microbatch));
}

// How long a mini-batch runs, in units of the cost model.
double InUnits(const Pass& pass, const StepDuration& step) {
  return pass.pipeline() != nullptr ? pass.cost().ToUnits(step.makespan)
                                    : pass.cost().ToUnits(step.time);
}

// Adds the mini-batch whose micro-batches begin at number `begin`. Returns the number at which they
// end and how long they run, or any once a stop is requested.
std::pair<size_t, StepDuration> AddMiniBatch(const Pass& pass, const PassPlan& plan, size_t begin,
                                             uint32_t slots, const Allowance& allowance,
                                             PlanMetrics& metrics, LoadMeasure& loads_of_pass,
                                             Totals& totals) {
  const uint32_t ranks = MeasuredRanks(pass);
  RankLoads loads(ranks);
  std::vector<Cost> costs;
  size_t m = begin;
  const uint64_t places = uint64_t{slots} * ranks;
  for (uint64_t place = 0; place < places; ++m) {
    if (m % kMicrobatchesPerLook == 0 && allowance.stop_requested()) return {m, {}};
    const Microbatch microbatch = MicrobatchOf(pass, plan, m, totals.computation);
    AddMicrobatch(pass, microbatch, metrics, totals);
    // Groups stand slot after slot, ranks' own micro-batches rank after rank.
    loads.Add(pass.sizes_differ() ? place % ranks : place / slots, microbatch);
    costs.push_back(microbatch.cost);
    place += microbatch.ranks;
  }
  std::vector<std::vector<Cost>> phases;
  if (!pass.loads().given().empty() && !pass.sizes_differ()) {
    const SequenceLists microbatches = MicrobatchesOf(plan, begin, m);
    phases = PhaseCosts(pass, microbatches, slots);
    loads_of_pass.Add(microbatches, slots, phases);
    for (size_t i = 0; i < phases.size(); ++i) {
      if (!pass.loads().phases()[i].dealt) loads.AddCosts(phases[i], slots);
    }
  }
  loads.AddTo(totals);
  std::span<const uint32_t> sizes = plan.context_sizes;
  if (!sizes.empty()) sizes = sizes.subspan(begin, costs.size());
  const StepDuration step = StepOf(pass, costs, phases, sizes, allowance);
  totals.time.Add(step.time);
  totals.makespan += step.makespan;
  totals.pipeline_work += step.work;
  totals.slots += slots;
  return {m, step};
}

// Adds the unique tokens and cost of the mini-batch of micro-batches begin .. end - 1.
void AddUnique(const Pass& pass, const PassPlan& plan, size_t begin, size_t end,
               PlanMetrics& metrics, Totals& totals) {
  std::vector<SequenceIndex> sequences;
  for (uint32_t i = plan.microbatch_offsets[begin]; i < plan.microbatch_offsets[end]; ++i) {
    sequences.emplace_back(plan.sequence_index[i]);
  }
  const UniquePart unique = UniqueOf(pass, sequences);
  metrics.unique_tokens += unique.tokens;
  totals.computation.Add(unique.computation);
}

// The bound to publish: at least the ideal time, which is a bound too, and not above the predicted
// time.
double LowerBound(const Pass& pass, double bound, const PlanMetrics& metrics) {
  if (!pass.sizes_differ() && pass.pipeline() == nullptr) return bound;
  // Sums of doubles in other orders, and of integers in other scales, differ by their rounding.
  bound = std::max(bound, metrics.ideal_step_time);
  constexpr double kRounding = 1e-6;
  const double time = metrics.predicted_step_time;
  const bool is_rounded = bound > time && bound <= time * (1 + kRounding);
  return pass.sizes_differ() && is_rounded ? time : bound;
}

}  // namespace

double BinBalance(std::span<const double> filled) {
  const double count = static_cast<double>(filled.size());
  if (count < 2) return 1;
  double mean = 0;
  for (const double tokens : filled) mean += tokens / count;
  double squares = 0;
  for (const double tokens : filled) {
    const double off = tokens - mean;
    squares += off * off;
  }
  return 1 - std::sqrt(squares / (count - 1)) / mean;
}

void MeasureTaken(const Manifest& manifest, std::span<const uint32_t> deferred, PassPlan& plan) {
  const auto mean = [](std::span<const uint32_t> of, std::span<const uint32_t> values) {
    if (of.empty() || values.empty()) return 0.0;
    uint64_t sum = 0;
    for (const uint32_t i : of) sum += values[i];
    return static_cast<double>(sum) / static_cast<double>(of.size());
  };
  PlanMetrics& metrics = plan.metrics;
  metrics.mean_length_taken = mean(plan.sequence_index, manifest.lengths);
  metrics.mean_length_deferred = mean(deferred, manifest.lengths);
  metrics.mean_age = mean(plan.sequence_index, manifest.ages);
  if (manifest.ages.empty()) return;
  for (const uint32_t i : plan.sequence_index) {
    metrics.largest_age = std::max(metrics.largest_age, manifest.ages[i]);
  }
}

void Measure(const Manifest& manifest, const Pass& pass, std::span<const MiniBatchBounds> bounds,
             const Allowance& allowance, PassPlan& plan) {
  PlanMetrics& metrics = plan.metrics;
  Totals totals;
  LoadMeasure loads(pass);
  size_t begin = 0;
  for (size_t k = 0; k < plan.microbatches_per_rank.size(); ++k) {
    if (allowance.stop_requested()) return;
    const uint32_t slots = plan.microbatches_per_rank[k];
    const auto [end, step] =
        AddMiniBatch(pass, plan, begin, slots, allowance, metrics, loads, totals);
    if (pass.prefixes() != nullptr) AddUnique(pass, plan, begin, end, metrics, totals);
    begin = end;
    if (k < plan.decisions.size()) {
      plan.decisions[k].fewest_slots = static_cast<uint32_t>(bounds[k].slots);
      SettleSlots(slots, InUnits(pass, step), plan.decisions[k].tried);
    }
    totals.fewest_slots += bounds[k].slots;
    totals.ideal_slots += bounds[k].ideal_slots;
    totals.bound.Add(bounds[k].step_time);
  }
  const uint64_t naive_width =
      manifest.pad_to != 0
          ? manifest.pad_to
          : *std::max_element(plan.sequence_lengths.begin(), plan.sequence_lengths.end());
  if (pass.prefixes() != nullptr) metrics.laid_tokens = totals.laid_tokens;
  if (!pass.loads().given().empty() && !pass.sizes_differ()) metrics.loads = loads.Metrics();
  metrics.naive_tokens = naive_width * plan.sequence_lengths.size();
  metrics.microbatches = static_cast<uint32_t>(plan.row_widths.size());
  metrics.lower_bound_microbatches =
      static_cast<uint32_t>(totals.fewest_slots * pass.fewest_groups());
  metrics.certified_optimal = metrics.microbatches == metrics.lower_bound_microbatches;

  const uint64_t budget = pass.options().max_tokens_per_microbatch;
  const uint64_t slot_room = budget * pass.topology().data_parallel;
  const auto room = static_cast<double>(totals.slots * slot_room + totals.above_budget);
  metrics.bin_utilization = static_cast<double>(totals.laid_tokens) / room;
  metrics.aligned_bin_utilization = static_cast<double>(metrics.aligned_tokens) / room;
  metrics.waste_ratio = 1 - metrics.bin_utilization;
  metrics.bin_balance = BinBalance(totals.filled);
  // Counted in micro-batches, for a pool in slots.
  const uint64_t unit = pass.sizes_differ() ? slot_room : budget;
  const uint64_t fewest_by_volume =
      totals.alone + (totals.laid_tokens - totals.alone_tokens + unit - 1) / unit;
  metrics.packing_efficiency =
      static_cast<double>(fewest_by_volume) /
      static_cast<double>(pass.sizes_differ() ? totals.slots : metrics.microbatches);
  metrics.padding_removed =
      1 - static_cast<double>(metrics.scheduled_tokens) / static_cast<double>(metrics.naive_tokens);
  metrics.rank_token_imbalance =
      totals.busiest_tokens * MeasuredRanks(pass) / static_cast<double>(metrics.aligned_tokens);
  const double ranks_cost = totals.ranks_cost.Of(pass);
  metrics.rank_cost_imbalance =
      ranks_cost == 0 ? 1 : totals.busiest_cost.Of(pass) / ranks_cost * MeasuredRanks(pass);

  const bool is_pipeline = pass.pipeline() != nullptr;
  metrics.ideal_step_time = IdealStepTime(pass, totals.computation.Of(pass), totals.ideal_slots);
  metrics.predicted_step_time =
      pass.cost().ToUnits(is_pipeline ? totals.makespan : totals.time.Of(pass));
  metrics.lower_bound_step_time =
      LowerBound(pass, pass.cost().ToUnits(totals.bound.Of(pass)), metrics);
  if (is_pipeline && totals.makespan > 0) {
    // Rounding may bring it a little below 0.
    metrics.pipeline_bubble = std::max(0.0, 1 - totals.pipeline_work / totals.makespan);
  }
  metrics.step_efficiency =
      metrics.predicted_step_time == 0 ? 1 : metrics.ideal_step_time / metrics.predicted_step_time;
}

}  // namespace batchplan
