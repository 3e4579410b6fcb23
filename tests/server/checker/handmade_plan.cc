#include "tests/server/checker/handmade_plan.h"

#include <algorithm>
#include <cmath>

#include "server/checker/check_plan.h"
#include "server/planner/time/pipeline_time.h"

namespace batchplan::testing {
namespace {

// The metrics of plan.proto, each by its definition and over the nested layout, where the checker
// works on the flat arrays. Adds the decision of each mini-batch, with its own slots alone.
PlanMetrics MetricsOf(const HandmadePlan& handmade, const PassOptions& options,
                      const HandmadePass& layout, uint32_t multiple, uint32_t limit,
                      std::vector<MiniBatchDecision>& decisions) {
  const CostModel& model = handmade.options.cost_model;
  const Topology& topology = handmade.options.topology;
  const auto cost_of = [&](double length) {
    return (model.per_token * length + model.per_token_squared * length * length) /
               topology.context_parallel +
           model.per_sequence;
  };
  // All sizes are in the first entry.
  const auto exchange_of = [&](double length) {
    if (model.exchange.empty()) return 0.0;
    const double parts = topology.context_parallel;
    const double exchange = model.exchange[0].per_token * length * (parts - 1) / parts;
    const double hidden =
        model.exchange_overlaps ? model.per_token_squared * length * length / parts : 0;
    return std::max(0.0, exchange - hidden);
  };
  const bool padded = options.layout == Layout::kPadded;
  PlanMetrics metrics;
  uint64_t sequences = 0;
  uint64_t longest = 0;
  double ideal = 0;
  double total_cost = 0;
  double total_tokens = 0;
  double most_tokens = 0;
  double most_cost = 0;
  std::vector<double> utilizations;
  double capacity = 0;
  double over_budget = 0;
  double tokens_within = 0;
  double stage_work = 0;
  for (const auto& ranks : layout) {
    std::vector<double> costs;
    double most_tokens_here = 0;
    double most_cost_here = 0;
    std::vector<double> slot_times(ranks.front().size(), 0);
    const double before = metrics.predicted_step_time;
    for (const auto& slots : ranks) {
      double rank_tokens = 0;
      double rank_cost = 0;
      for (size_t slot = 0; slot < slots.size(); ++slot) {
        const auto& [members, width] = slots[slot];
        double cost = model.per_microbatch;
        uint64_t tokens = 0;
        uint64_t aligned_tokens = 0;
        for (uint32_t sequence : members) {
          const uint32_t length = std::min(handmade.lengths[sequence], limit);
          const uint32_t aligned = (length + multiple - 1) / multiple * multiple;
          ++sequences;
          longest = std::max<uint64_t>(longest, length);
          tokens += length;
          aligned_tokens += aligned;
          const double computed = padded ? width : aligned;
          cost += cost_of(computed) + exchange_of(computed);
          ideal += cost_of(aligned);
        }
        if (!padded) {
          cost += model.per_token * static_cast<double>(width - aligned_tokens) /
                  topology.context_parallel;
        }
        ++metrics.microbatches;
        metrics.true_tokens += tokens;
        metrics.aligned_tokens += aligned_tokens;
        metrics.scheduled_tokens += padded ? members.size() * width : width;
        const double room = std::max(width, options.max_tokens_per_microbatch);
        if (tokens > 0) utilizations.push_back(static_cast<double>(tokens) / room);
        capacity += room;
        if (width > options.max_tokens_per_microbatch) {
          ++over_budget;
        } else {
          tokens_within += static_cast<double>(tokens);
        }
        rank_tokens += static_cast<double>(aligned_tokens);
        rank_cost += cost;
        costs.push_back(cost);
        slot_times[slot] = std::max(slot_times[slot], cost);
      }
      total_tokens += rank_tokens;
      total_cost += rank_cost;
      most_tokens_here = std::max(most_tokens_here, rank_tokens);
      most_cost_here = std::max(most_cost_here, rank_cost);
    }
    most_tokens += most_tokens_here;
    most_cost += most_cost_here;
    if (topology.pipeline_parallel > 1) {
      const Pipeline pipeline =
          PipelineOf(topology, handmade.options.pipeline, options.forward_only);
      const PipelineTime time =
          PipelineTimeOf(pipeline, handmade.options.synchronization, costs, ranks.size());
      metrics.predicted_step_time += time.makespan;
      stage_work += time.work;
    } else if (handmade.options.synchronization == Synchronization::kAccumulated) {
      metrics.predicted_step_time += most_cost_here;
    } else {
      for (double time : slot_times) metrics.predicted_step_time += time;
    }
    const auto slots = static_cast<uint32_t>(slot_times.size());
    decisions.push_back(
        {.method = "balanced",
         .fewest_slots = slots,
         .tried = {{.slots = slots, .step_time = metrics.predicted_step_time - before}}});
  }
  const double ranks = static_cast<double>(layout.front().size());
  metrics.naive_tokens = sequences * (handmade.pad_to != 0 ? handmade.pad_to : longest);
  metrics.lower_bound_microbatches = metrics.microbatches;
  metrics.certified_optimal = true;
  metrics.bin_utilization = static_cast<double>(metrics.true_tokens) / capacity;
  metrics.aligned_bin_utilization = static_cast<double>(metrics.aligned_tokens) / capacity;
  metrics.waste_ratio = 1 - metrics.bin_utilization;
  double mean = 0;
  for (double utilization : utilizations) mean += utilization;
  mean /= static_cast<double>(utilizations.size());
  double squares = 0;
  for (double utilization : utilizations) squares += (utilization - mean) * (utilization - mean);
  metrics.bin_balance =
      utilizations.size() < 2
          ? 1
          : 1 - std::sqrt(squares / static_cast<double>(utilizations.size() - 1)) / mean;
  metrics.packing_efficiency =
      (over_budget + std::ceil(tokens_within / options.max_tokens_per_microbatch)) /
      metrics.microbatches;
  metrics.padding_removed =
      1 - static_cast<double>(metrics.scheduled_tokens) / static_cast<double>(metrics.naive_tokens);
  metrics.rank_token_imbalance = most_tokens * ranks / total_tokens;
  metrics.rank_cost_imbalance = most_cost * ranks / total_cost;
  metrics.ideal_step_time = (ideal + model.per_microbatch * metrics.lower_bound_microbatches) /
                            ranks / topology.pipeline_parallel;
  if (topology.pipeline_parallel > 1) {
    metrics.pipeline_bubble = 1 - stage_work / metrics.predicted_step_time;
  }
  metrics.lower_bound_step_time = metrics.ideal_step_time;
  metrics.step_efficiency = metrics.ideal_step_time / metrics.predicted_step_time;
  return metrics;
}

}  // namespace

void HandmadePlan::AddPass(const HandmadePass& layout, uint32_t length_multiple, uint32_t limit) {
  const PassOptions& pass_options = options.passes[plan.passes.size()];
  PassPlan& pass = plan.passes.emplace_back();
  pass.name = pass_options.name;
  pass.length_multiple = length_multiple;
  pass.microbatch_offsets = {0};
  for (const auto& ranks : layout) {
    pass.microbatches_per_rank.push_back(static_cast<uint32_t>(ranks.front().size()));
    for (const auto& slots : ranks) {
      for (const HandmadeMicrobatch& microbatch : slots) {
        for (uint32_t sequence : microbatch.sequences) {
          pass.sequence_index.push_back(sequence);
          pass.sequence_lengths.push_back(std::min(lengths[sequence], limit));
        }
        pass.microbatch_offsets.push_back(static_cast<uint32_t>(pass.sequence_index.size()));
        pass.row_widths.push_back(microbatch.width);
      }
    }
  }
  pass.metrics = MetricsOf(*this, pass_options, layout, length_multiple, limit, pass.decisions);
  const auto taken = static_cast<double>(pass.sequence_index.size());
  for (const uint32_t sequence : pass.sequence_index) {
    pass.metrics.mean_length_taken += lengths[sequence] / taken;
    if (ages.empty()) continue;
    pass.metrics.mean_age += ages[sequence] / taken;
    pass.metrics.largest_age = std::max(pass.metrics.largest_age, ages[sequence]);
  }
  for (const uint32_t sequence : plan.deferred) {
    pass.metrics.mean_length_deferred +=
        lengths[sequence] / static_cast<double>(plan.deferred.size());
  }
  plan.cost_model_used = options.cost_model;
}

absl::Status HandmadePlan::Check() const { return CheckPlan(manifest(), options, plan); }

PassOptions PackedPass(const std::string& name, uint32_t budget) {
  PassOptions pass;
  pass.name = name;
  pass.max_tokens_per_microbatch = budget;
  return pass;
}

HandmadePlan TwoMiniBatches() {
  HandmadePlan handmade;
  handmade.lengths = {5, 8, 3, 12, 1, 4, 7, 2, 9, 6, 10, 16};
  handmade.options.topology = {
      .data_parallel = 2, .context_parallel = 2, .pipeline_parallel = 2, .virtual_pipeline = 2};
  handmade.options.mini_batches.size = 6;
  handmade.options.passes = {PackedPass("train", 30)};
  // Aligned: 8 8 4 12 4 4 | 8 4 12 8 12 16.
  handmade.AddPass({{{{{0, 1}, 16}, {{2}, 4}}, {{{3}, 12}, {{5, 4}, 8}}},
                    {{{{11, 6}, 24}, {{7}, 4}}, {{{8, 9}, 20}, {{10}, 12}}}},
                   4);
  return handmade;
}

}  // namespace batchplan::testing
