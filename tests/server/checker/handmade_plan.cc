#include "tests/server/checker/handmade_plan.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "server/checker/check_plan.h"
#include "server/planner/time/pipeline_time.h"
#include "tests/server/checker/handmade_loads.h"
#include "tests/support/naive_tokens.h"

namespace batchplan::testing {
namespace {

bool Shares(const HandmadePass& layout) {
  for (const auto& ranks : layout) {
    for (const auto& slots : ranks) {
      for (const HandmadeMicrobatch& microbatch : slots) {
        if (!microbatch.shared.empty()) return true;
      }
    }
  }
  return false;
}

// The different tokens of a mini-batch. Tokens of sequences longer than `holds`, which run alone,
// count each time.
std::multiset<Token> UniqueTokens(const HandmadePlan& handmade,
                                  const std::vector<std::vector<HandmadeMicrobatch>>& ranks,
                                  uint32_t holds, uint32_t limit) {
  const std::vector<std::vector<Token>> tokens = NaiveTokens(handmade.manifest());
  std::set<Token> shared;
  std::multiset<Token> all;
  for (const auto& slots : ranks) {
    for (const HandmadeMicrobatch& microbatch : slots) {
      for (const uint32_t sequence : microbatch.sequences) {
        const uint32_t length = std::min(handmade.lengths[sequence], limit);
        for (uint32_t depth = 0; depth < length; ++depth) {
          const Token token = tokens[sequence][depth];
          if (length > holds || shared.insert(token).second) all.insert(token);
        }
      }
    }
  }
  return all;
}

std::vector<SlotsOfRanks> SequencesOf(const HandmadePass& layout) {
  std::vector<SlotsOfRanks> all;
  for (const auto& ranks : layout) {
    SlotsOfRanks& mini_batch = all.emplace_back();
    for (const auto& slots : ranks) {
      auto& rank = mini_batch.emplace_back();
      for (const HandmadeMicrobatch& microbatch : slots) rank.push_back(microbatch.sequences);
    }
  }
  return all;
}

// The metrics of plan.proto by their definitions, computed from the nested layout; the checker uses
// the flat arrays. Adds each mini-batch's decision, with only its own number of slots.
PlanMetrics MetricsOf(const HandmadePlan& handmade, const PassOptions& options,
                      const HandmadePass& layout, uint32_t multiple, uint32_t limit,
                      const std::vector<LoadRanks>& item_ranks,
                      std::vector<MiniBatchDecision>& decisions) {
  const Manifest manifest = handmade.manifest();
  HandmadeLoads loads(manifest, handmade.options);
  const std::vector<SlotsOfRanks> sequences_of = SequencesOf(layout);
  const CostModel& model = handmade.options.cost_model;
  const Topology& topology = handmade.options.topology;
  // The cost of a sequence's tokens behind the first `shared` ones.
  const auto cost_of = [&](double length, double shared) {
    return (model.per_token * (length - shared) +
            model.per_token_squared * (length * length - shared * shared)) /
               topology.context_parallel +
           model.per_sequence;
  };
  // The first entry is for all sizes.
  const auto exchange_of = [&](double length, double shared) {
    if (model.exchange.empty()) return 0.0;
    const double parts = topology.context_parallel;
    const double exchange = model.exchange[0].per_token * (length - shared) * (parts - 1) / parts;
    const double hidden = model.exchange_overlaps ? model.per_token_squared *
                                                        (length * length - shared * shared) / parts
                                                  : 0;
    return std::max(0.0, exchange - hidden);
  };
  const bool shares = Shares(layout);
  const bool padded = options.layout == Layout::kPadded;
  PlanMetrics metrics;
  uint64_t sequences = 0;
  uint64_t laid = 0;
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
  for (size_t mini_batch = 0; mini_batch < layout.size(); ++mini_batch) {
    const auto& ranks = layout[mini_batch];
    loads.Add(sequences_of[mini_batch], item_ranks);
    std::vector<double> costs;
    double most_tokens_here = 0;
    double most_cost_here = 0;
    double most_time_here = 0;
    std::vector<double> slot_times(ranks.front().size(), 0);
    const double before = metrics.predicted_step_time;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto& slots = ranks[rank];
      double rank_tokens = 0;
      double rank_cost = 0;
      double dealt_cost = 0;
      for (size_t slot = 0; slot < slots.size(); ++slot) {
        const auto& [members, width, shared_tokens] = slots[slot];
        double cost = model.per_microbatch + loads.in_rows()[rank][slot];
        uint64_t tokens = 0;
        uint64_t laid_tokens = 0;
        uint64_t aligned_tokens = 0;
        for (size_t k = 0; k < members.size(); ++k) {
          const uint32_t length = std::min(handmade.lengths[members[k]], limit);
          const uint32_t shared = shared_tokens.empty() ? 0 : shared_tokens[k];
          const uint32_t aligned = shares ? length : (length + multiple - 1) / multiple * multiple;
          ++sequences;
          longest = std::max<uint64_t>(longest, length);
          tokens += length;
          laid_tokens += length - shared;
          aligned_tokens += aligned - shared;
          const double computed = padded ? width : aligned;
          cost += cost_of(computed, shared) + exchange_of(computed, shared);
          ideal += shares ? model.per_sequence : cost_of(aligned, 0);
          ideal += loads.CostOf(members[k]);
        }
        if (!padded) {
          cost += model.per_token * static_cast<double>(width - aligned_tokens) /
                  topology.context_parallel;
        }
        ++metrics.microbatches;
        metrics.true_tokens += tokens;
        metrics.aligned_tokens += aligned_tokens;
        laid += laid_tokens;
        metrics.scheduled_tokens += padded ? members.size() * width : width;
        const double room = std::max(width, options.max_tokens_per_microbatch);
        if (tokens > 0) utilizations.push_back(static_cast<double>(laid_tokens) / room);
        capacity += room;
        if (width > options.max_tokens_per_microbatch) {
          ++over_budget;
        } else {
          tokens_within += static_cast<double>(laid_tokens);
        }
        rank_tokens += static_cast<double>(aligned_tokens);
        rank_cost += cost;
        for (const HandmadePhase& phase : loads.phases()) {
          (phase.dealt ? dealt_cost : rank_cost) += phase.costs[rank][slot];
        }
        costs.push_back(cost);
        slot_times[slot] = std::max(slot_times[slot], cost);
      }
      total_tokens += rank_tokens;
      total_cost += rank_cost;
      most_tokens_here = std::max(most_tokens_here, rank_tokens);
      most_cost_here = std::max(most_cost_here, rank_cost);
      most_time_here = std::max(most_time_here, rank_cost + dealt_cost);
    }
    if (shares) {
      const uint32_t budget = options.max_tokens_per_microbatch;
      for (const Token token : UniqueTokens(handmade, ranks, budget - budget % multiple, limit)) {
        ideal += cost_of(DepthOf(token) + 1.0, DepthOf(token)) - model.per_sequence;
        ++metrics.unique_tokens;
      }
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
      metrics.predicted_step_time += most_time_here;
    } else {
      for (double time : slot_times) metrics.predicted_step_time += time;
      for (const HandmadePhase& phase : loads.phases()) {
        for (size_t slot = 0; slot < slot_times.size(); ++slot) {
          double slowest = 0;
          for (const auto& of_rank : phase.costs) slowest = std::max(slowest, of_rank[slot]);
          metrics.predicted_step_time += slowest;
        }
      }
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
  if (shares) metrics.laid_tokens = laid;
  metrics.bin_utilization = static_cast<double>(laid) / capacity;
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
  metrics.rank_cost_imbalance = total_cost == 0 ? 1 : most_cost * ranks / total_cost;
  metrics.ideal_step_time = (ideal + model.per_microbatch * metrics.lower_bound_microbatches) /
                            ranks / topology.pipeline_parallel;
  if (topology.pipeline_parallel > 1) {
    metrics.pipeline_bubble = 1 - stage_work / metrics.predicted_step_time;
  }
  metrics.lower_bound_step_time = metrics.ideal_step_time;
  metrics.step_efficiency = metrics.ideal_step_time / metrics.predicted_step_time;
  metrics.loads = loads.Metrics();
  return metrics;
}

}  // namespace

void HandmadePlan::AddPass(const HandmadePass& layout, uint32_t length_multiple, uint32_t limit) {
  const PassOptions& pass_options = options.passes[plan.passes.size()];
  PassPlan& pass = plan.passes.emplace_back();
  pass.name = pass_options.name;
  pass.length_multiple = length_multiple;
  pass.microbatch_offsets = {0};
  const bool shares = Shares(layout);
  for (const auto& ranks : layout) {
    pass.microbatches_per_rank.push_back(static_cast<uint32_t>(ranks.front().size()));
    for (const auto& slots : ranks) {
      for (const HandmadeMicrobatch& microbatch : slots) {
        for (uint32_t sequence : microbatch.sequences) {
          pass.sequence_index.push_back(sequence);
          pass.sequence_lengths.push_back(std::min(lengths[sequence], limit));
        }
        std::vector<uint32_t> shared = microbatch.shared;
        shared.resize(shares ? microbatch.sequences.size() : 0);
        pass.shared_tokens.insert(pass.shared_tokens.end(), shared.begin(), shared.end());
        pass.microbatch_offsets.push_back(static_cast<uint32_t>(pass.sequence_index.size()));
        pass.row_widths.push_back(microbatch.width);
      }
    }
  }
  pass.item_ranks = DealItems(manifest(), options.cost_model, SequencesOf(layout));
  pass.metrics = MetricsOf(*this, pass_options, layout, length_multiple, limit, pass.item_ranks,
                           pass.decisions);
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
  // Aligned lengths: 8 8 4 12 4 4 | 8 4 12 8 12 16.
  handmade.AddPass({{{{{0, 1}, 16}, {{2}, 4}}, {{{3}, 12}, {{5, 4}, 8}}},
                    {{{{11, 6}, 24}, {{7}, 4}}, {{{8, 9}, 20}, {{10}, 12}}}},
                   4);
  return handmade;
}

}  // namespace batchplan::testing
