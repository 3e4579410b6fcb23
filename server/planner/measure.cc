#include "server/planner/measure.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "server/planner/step_clock.h"

namespace batchplan {
namespace {

// What one micro-batch holds.
struct Microbatch {
  uint64_t true_tokens = 0;
  uint64_t aligned_tokens = 0;
  uint64_t scheduled_tokens = 0;
  uint64_t room = 0;     // the token budget, or all of a sequence alone that is above it
  Cost sequences = 0;    // at their aligned lengths
  Cost computation = 0;  // of that, without the exchange
  Cost cost = 0;         // as scheduled
};

// Those of one mini-batch, from `first` on.
std::vector<Microbatch> Microbatches(const Pass& pass, const PassPlan& plan, size_t first,
                                     size_t count) {
  const CostFunction& cost = pass.cost();
  std::vector<Microbatch> microbatches(count);
  for (size_t m = first; m < first + count; ++m) {
    Microbatch& microbatch = microbatches[m - first];
    for (uint32_t i = plan.microbatch_offsets[m]; i < plan.microbatch_offsets[m + 1]; ++i) {
      const uint32_t tokens = pass.aligned()[plan.sequence_index[i]];
      microbatch.true_tokens += plan.sequence_lengths[i];
      microbatch.aligned_tokens += tokens;
      microbatch.sequences += cost.OfSequence(tokens);
      microbatch.computation += cost.OfComputation(tokens);
    }
    const uint64_t width = plan.row_widths[m];
    microbatch.room = std::max<uint64_t>(pass.options().max_tokens_per_microbatch, width);
    if (pass.options().layout == Layout::kPadded) {
      const uint64_t count = plan.microbatch_offsets[m + 1] - plan.microbatch_offsets[m];
      microbatch.scheduled_tokens = count * width;
      microbatch.cost = count * cost.OfSequence(width) + cost.OfMicrobatch();
    } else {
      microbatch.scheduled_tokens = width;
      microbatch.cost = microbatch.sequences + cost.OfMicrobatch() +
                        cost.OfTail(width - microbatch.aligned_tokens);
    }
  }
  return microbatches;
}

// Of the ranks of one mini-batch, the most that one has.
struct BusiestRank {
  Cost cost = 0;
  uint64_t tokens = 0;
};

BusiestRank BusiestOf(std::span<const Microbatch> microbatches, uint32_t ranks) {
  const size_t slots = microbatches.size() / ranks;
  BusiestRank busiest;
  for (size_t rank = 0; rank < ranks; ++rank) {
    Cost cost = 0;
    uint64_t tokens = 0;
    for (const Microbatch& microbatch : microbatches.subspan(rank * slots, slots)) {
      cost += microbatch.cost;
      tokens += microbatch.aligned_tokens;
    }
    busiest.cost = std::max(busiest.cost, cost);
    busiest.tokens = std::max(busiest.tokens, tokens);
  }
  return busiest;
}

StepDuration DurationOf(const Pass& pass, std::span<const Microbatch> microbatches,
                        const Allowance& allowance) {
  std::vector<Cost> costs;
  costs.reserve(microbatches.size());
  for (const Microbatch& microbatch : microbatches) costs.push_back(microbatch.cost);
  return pass.clock().Of(TimedRanks(costs, pass.ranks()), allowance);
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

PlanMetrics Measure(const Manifest& manifest, const Pass& pass, const PassPlan& plan,
                    std::span<const MiniBatchBounds> bounds, const Allowance& allowance) {
  const uint32_t ranks = pass.ranks();
  const CostFunction& cost = pass.cost();
  PlanMetrics metrics;

  Cost computation = 0;
  Cost total_cost = 0;
  const uint64_t naive_width =
      manifest.pad_to != 0
          ? manifest.pad_to
          : *std::max_element(plan.sequence_lengths.begin(), plan.sequence_lengths.end());
  metrics.naive_tokens = naive_width * plan.sequence_lengths.size();

  BusiestRank busiest;
  const uint64_t budget = pass.options().max_tokens_per_microbatch;
  std::vector<double> filled;
  uint64_t room_tokens = 0;
  uint64_t alone = 0;
  uint64_t alone_tokens = 0;
  StepDuration step;
  uint64_t bound = 0;
  Cost least_time = 0;
  size_t begin = 0;
  for (size_t k = 0; k < plan.microbatches_per_rank.size(); ++k) {
    const size_t count = size_t{plan.microbatches_per_rank[k]} * ranks;
    const std::vector<Microbatch> microbatches = Microbatches(pass, plan, begin, count);
    for (const Microbatch& microbatch : microbatches) {
      metrics.true_tokens += microbatch.true_tokens;
      metrics.aligned_tokens += microbatch.aligned_tokens;
      metrics.scheduled_tokens += microbatch.scheduled_tokens;
      computation += microbatch.computation;
      total_cost += microbatch.cost;
      room_tokens += microbatch.room;
      if (microbatch.room > budget) {
        ++alone;
        alone_tokens += microbatch.true_tokens;
        filled.push_back(static_cast<double>(microbatch.true_tokens) /
                         static_cast<double>(microbatch.room) * static_cast<double>(budget));
      } else if (microbatch.true_tokens > 0) {
        filled.push_back(static_cast<double>(microbatch.true_tokens));
      }
    }
    const BusiestRank most = BusiestOf(microbatches, ranks);
    busiest.cost += most.cost;
    busiest.tokens += most.tokens;
    least_time += bounds[k].step_time;
    const StepDuration own = DurationOf(pass, microbatches, allowance);
    step.time += own.time;
    step.makespan += own.makespan;
    step.work += own.work;
    bound += bounds[k].microbatches;
    begin += count;
  }

  metrics.microbatches = static_cast<uint32_t>(plan.row_widths.size());
  metrics.lower_bound_microbatches = static_cast<uint32_t>(bound);
  metrics.certified_optimal = metrics.microbatches == bound;

  const auto room = static_cast<double>(room_tokens);
  metrics.bin_utilization = static_cast<double>(metrics.true_tokens) / room;
  metrics.aligned_bin_utilization = static_cast<double>(metrics.aligned_tokens) / room;
  metrics.waste_ratio = 1 - metrics.bin_utilization;
  metrics.bin_balance = BinBalance(filled);
  const uint64_t fewest_by_volume =
      alone + (metrics.true_tokens - alone_tokens + budget - 1) / budget;
  metrics.packing_efficiency = static_cast<double>(fewest_by_volume) / metrics.microbatches;
  metrics.padding_removed =
      1 - static_cast<double>(metrics.scheduled_tokens) / static_cast<double>(metrics.naive_tokens);

  metrics.rank_token_imbalance =
      static_cast<double>(busiest.tokens) * ranks / static_cast<double>(metrics.aligned_tokens);
  metrics.rank_cost_imbalance =
      total_cost == 0 ? 1 : cost.ToUnits(busiest.cost) / cost.ToUnits(total_cost) * ranks;
  const uint32_t stages = pass.pipeline() == nullptr ? 1 : pass.pipeline()->stages;
  metrics.ideal_step_time =
      (cost.ToUnits(computation) + cost.ToUnits(cost.OfMicrobatch()) * static_cast<double>(bound)) /
      ranks / stages;
  metrics.lower_bound_step_time = cost.ToUnits(least_time);
  metrics.predicted_step_time = cost.ToUnits(step.time);
  if (pass.pipeline() != nullptr) {
    metrics.predicted_step_time = cost.ToUnits(step.makespan);
    // Sums of doubles in other orders differ by what they are rounded.
    metrics.lower_bound_step_time =
        std::max(metrics.lower_bound_step_time, metrics.ideal_step_time);
    metrics.pipeline_bubble = step.makespan == 0 ? 0 : std::max(0.0, 1 - step.work / step.makespan);
  }
  metrics.step_efficiency =
      metrics.predicted_step_time == 0 ? 1 : metrics.ideal_step_time / metrics.predicted_step_time;
  return metrics;
}

}  // namespace batchplan
