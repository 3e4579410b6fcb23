#include "server/checker/check_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/checker/pipeline_events.h"
#include "server/checker/stated_metrics.h"
#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

// What one micro-batch computes.
struct Load {
  uint64_t true_tokens = 0;
  uint64_t aligned_tokens = 0;
  uint64_t scheduled_tokens = 0;
  // The budget, or the row of a sequence alone that is above it.
  uint64_t capacity = 0;
  double cost = 0;
};

// Over the whole pass.
struct Totals {
  uint64_t true_tokens = 0;
  uint64_t aligned_tokens = 0;
  uint64_t scheduled_tokens = 0;
  double capacity = 0;
  // Micro-batches above the budget, and the true tokens of the others.
  uint64_t over_budget = 0;
  uint64_t tokens_within = 0;
  uint64_t longest = 0;
  double computation = 0;  // of the sequences, at their aligned lengths
  // Summed over mini-batches.
  double step_time = 0;
  // Of that, on pipelines, how long the busiest stage of the slowest rank works; two numbers where
  // several ranks are as slow.
  double least_stage_work = 0;
  double most_stage_work = 0;
  double most_loaded_tokens = 0;
  double most_loaded_cost = 0;
  double rank_cost = 0;  // of all ranks together
};

// What so many tokens cost each of the ranks that share them.
double SharedCost(const PlanOptions& request, double linear, double squared) {
  const CostModel& model = request.cost_model;
  return (model.per_token * linear + model.per_token_squared * squared) /
         request.topology.context_parallel;
}

// What a sequence costs them without their exchange.
double ComputationCost(const PlanOptions& request, double length) {
  return SharedCost(request, length, length * length) + request.cost_model.per_sequence;
}

// What each of them spends on the keys and values that the others hold.
double ExchangeCost(const PlanOptions& request, double length) {
  const double ranks = request.topology.context_parallel;
  double per_token = 0;
  // The entries ascend: the last that holds is the tightest from the back on.
  const std::vector<ContextExchange>& entries = request.cost_model.exchange;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->up_to_size != 0 && entry->up_to_size < ranks) break;
    per_token = entry->per_token;
  }
  const double exchange = per_token * (length - length / ranks);
  if (!request.cost_model.exchange_overlaps) return exchange;
  return std::max(0.0, exchange - SharedCost(request, 0, length * length));
}

double SequenceCost(const PlanOptions& request, double length) {
  return ComputationCost(request, length) + ExchangeCost(request, length);
}

Load LoadOf(const PassUnderCheck& pass, size_t m, const Microbatch& microbatch) {
  const uint64_t width = pass.plan.row_widths[m];
  const bool padded = pass.options.layout == Layout::kPadded;
  Load load;
  load.capacity = std::max<uint64_t>(width, pass.options.max_tokens_per_microbatch);
  load.cost = pass.request.cost_model.per_microbatch;
  for (size_t p = microbatch.begin; p < microbatch.end; ++p) {
    const uint32_t length = pass.plan.sequence_lengths[p];
    const uint64_t aligned = AlignedLength(length, pass.pass_demands.length_multiple);
    load.true_tokens += length;
    load.aligned_tokens += aligned;
    load.cost += SequenceCost(pass.request, static_cast<double>(padded ? width : aligned));
  }
  if (padded) {
    load.scheduled_tokens = microbatch.size() * width;
  } else {
    load.scheduled_tokens = width;
    load.cost += SharedCost(pass.request, static_cast<double>(width - load.aligned_tokens), 0);
  }
  return load;
}

// Adds what the pipeline takes for micro-batches of these costs, those of each rank.
void AddPipelines(const PassUnderCheck& pass, const std::vector<std::vector<double>>& ranks,
                  Totals& totals) {
  std::vector<double> times;
  times.reserve(ranks.size());
  for (const std::vector<double>& costs : ranks) {
    times.push_back(PipelineTime(pass.request.topology, pass.request.pipeline,
                                 pass.options.forward_only, costs));
  }
  const double slowest = *std::max_element(times.begin(), times.end());
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (times[rank] < slowest * (1 - kTolerance)) continue;
    const double work = std::accumulate(ranks[rank].begin(), ranks[rank].end(), 0.0);
    least = std::min(least, work);
    most = std::max(most, work);
  }
  totals.step_time += slowest;
  totals.least_stage_work += least * LargestStage(pass.request.topology, pass.request.pipeline);
  totals.most_stage_work += most * LargestStage(pass.request.topology, pass.request.pipeline);
}

// Adds the mini-batch of `loads`, which stand rank by rank, `slots` for each.
void AddMiniBatch(const PassUnderCheck& pass, const std::vector<Load>& loads, size_t slots,
                  Totals& totals) {
  const Synchronization synchronization = pass.request.synchronization;
  std::vector<double> slowest_of_slot(slots, 0);
  double most_loaded_tokens = 0;
  double most_loaded_cost = 0;
  for (size_t begin = 0; begin < loads.size(); begin += slots) {
    double rank_tokens = 0;
    double rank_cost = 0;
    for (size_t slot = 0; slot < slots; ++slot) {
      const Load& load = loads[begin + slot];
      rank_tokens += static_cast<double>(load.aligned_tokens);
      rank_cost += load.cost;
      slowest_of_slot[slot] = std::max(slowest_of_slot[slot], load.cost);
    }
    most_loaded_tokens = std::max(most_loaded_tokens, rank_tokens);
    most_loaded_cost = std::max(most_loaded_cost, rank_cost);
    totals.rank_cost += rank_cost;
  }
  totals.most_loaded_tokens += most_loaded_tokens;
  totals.most_loaded_cost += most_loaded_cost;
  if (pass.request.topology.pipeline_parallel > 1) {
    if (synchronization == Synchronization::kLockstep) {
      AddPipelines(pass, {slowest_of_slot}, totals);
      return;
    }
    std::vector<std::vector<double>> ranks;
    for (size_t m = 0; m < loads.size(); ++m) {
      if (m % slots == 0) ranks.emplace_back();
      ranks.back().push_back(loads[m].cost);
    }
    AddPipelines(pass, ranks, totals);
    return;
  }
  if (synchronization == Synchronization::kAccumulated) {
    totals.step_time += most_loaded_cost;
  } else {
    for (double slowest : slowest_of_slot) totals.step_time += slowest;
  }
}

Totals Measure(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches,
               const std::vector<Load>& loads) {
  Totals totals;
  for (const Load& load : loads) {
    totals.true_tokens += load.true_tokens;
    totals.aligned_tokens += load.aligned_tokens;
    totals.scheduled_tokens += load.scheduled_tokens;
    totals.capacity += static_cast<double>(load.capacity);
    if (load.capacity > pass.options.max_tokens_per_microbatch) {
      ++totals.over_budget;
    } else {
      totals.tokens_within += load.true_tokens;
    }
  }
  for (uint32_t length : pass.demands.planned_lengths) {
    if (length == 0) continue;  // dropped
    totals.longest = std::max<uint64_t>(totals.longest, length);
    const uint64_t aligned = AlignedLength(length, pass.pass_demands.length_multiple);
    totals.computation += ComputationCost(pass.request, static_cast<double>(aligned));
  }
  size_t m = 0;
  while (m < microbatches.size()) {
    const size_t slots = pass.plan.microbatches_per_rank[microbatches[m].mini_batch];
    const size_t end = m + slots * pass.demands.data_parallel;
    AddMiniBatch(
        pass,
        {loads.begin() + static_cast<ptrdiff_t>(m), loads.begin() + static_cast<ptrdiff_t>(end)},
        slots, totals);
    m = end;
  }
  return totals;
}

double Utilization(const Load& load) {
  return static_cast<double>(load.true_tokens) / static_cast<double>(load.capacity);
}

std::vector<double> Utilizations(const std::vector<Load>& loads) {
  std::vector<double> filled;
  for (const Load& load : loads) {
    if (load.true_tokens > 0) filled.push_back(Utilization(load));
  }
  return filled;
}

absl::Status CheckCounts(const PassUnderCheck& pass, const Totals& totals) {
  const PlanMetrics& metrics = pass.plan.metrics;
  const uint64_t naive_width =
      pass.manifest.pad_to != 0 ? uint64_t{pass.manifest.pad_to} : totals.longest;
  for (const absl::Status& status : {
           CheckExact(pass, "microbatches", metrics.microbatches, pass.plan.row_widths.size()),
           CheckExact(pass, "true_tokens", metrics.true_tokens, totals.true_tokens),
           CheckExact(pass, "aligned_tokens", metrics.aligned_tokens, totals.aligned_tokens),
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

absl::Status CheckRatios(const PassUnderCheck& pass, const Totals& totals, double bin_balance) {
  const PlanMetrics& metrics = pass.plan.metrics;
  if (!(metrics.bin_utilization > 0 && metrics.bin_utilization <= 1)) {
    return Violation(Field(pass, "metrics.bin_utilization"), " is ", metrics.bin_utilization,
                     ", outside (0, 1]");
  }
  const double microbatches = metrics.microbatches;
  const uint64_t budget = pass.options.max_tokens_per_microbatch;
  const double utilization = static_cast<double>(totals.true_tokens) / totals.capacity;
  const uint64_t volume_bound = totals.over_budget + totals.tokens_within / budget +
                                (totals.tokens_within % budget == 0 ? 0 : 1);
  const double scheduled_share =
      static_cast<double>(metrics.scheduled_tokens) / static_cast<double>(metrics.naive_tokens);
  const double ranks = static_cast<double>(pass.demands.data_parallel);
  const double mean_tokens = static_cast<double>(totals.aligned_tokens) / ranks;
  for (const absl::Status& status : {
           CheckNear(pass, "bin_utilization", metrics.bin_utilization, utilization, kTolerance),
           CheckNear(pass, "aligned_bin_utilization", metrics.aligned_bin_utilization,
                     static_cast<double>(totals.aligned_tokens) / totals.capacity, kTolerance),
           CheckNear(pass, "waste_ratio", metrics.waste_ratio, 1 - utilization, kTolerance),
           CheckNear(pass, "bin_balance", metrics.bin_balance, bin_balance, kTolerance),
           CheckNear(pass, "packing_efficiency", metrics.packing_efficiency,
                     static_cast<double>(volume_bound) / microbatches, kTolerance),
           CheckNear(pass, "padding_removed", metrics.padding_removed, 1 - scheduled_share,
                     kTolerance * (1 + scheduled_share)),
           CheckNear(pass, "rank_token_imbalance", metrics.rank_token_imbalance,
                     totals.most_loaded_tokens / mean_tokens, kTolerance * ranks),
           CheckNear(pass, "rank_cost_imbalance", metrics.rank_cost_imbalance,
                     totals.most_loaded_cost / (totals.rank_cost / ranks), kTolerance * ranks),
       }) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckTimes(const PassUnderCheck& pass, const Totals& totals) {
  const PlanMetrics& metrics = pass.plan.metrics;
  const double ideal = (totals.computation +
                        pass.request.cost_model.per_microbatch * metrics.lower_bound_microbatches) /
                       static_cast<double>(pass.demands.data_parallel) /
                       static_cast<double>(pass.request.topology.pipeline_parallel);
  const bool is_pipeline = pass.request.topology.pipeline_parallel > 1 && totals.step_time > 0;
  const double least_bubble = is_pipeline ? 1 - totals.most_stage_work / totals.step_time : 0;
  const double most_bubble = is_pipeline ? 1 - totals.least_stage_work / totals.step_time : 0;
  for (const absl::Status& status : {
           CheckNear(pass, "predicted_step_time", metrics.predicted_step_time, totals.step_time,
                     kTolerance * totals.step_time),
           CheckNear(pass, "ideal_step_time", metrics.ideal_step_time, ideal, kTolerance * ideal),
           CheckNear(pass, "step_efficiency", metrics.step_efficiency,
                     metrics.ideal_step_time / metrics.predicted_step_time, kTolerance),
           CheckNear(pass, "pipeline_bubble", metrics.pipeline_bubble,
                     std::clamp(metrics.pipeline_bubble, least_bubble, most_bubble), kTolerance),
       }) {
    if (!status.ok()) return status;
  }
  return CheckBounds(pass);
}

// As in "8:0.02 0:0.065 overlaps".
std::string ExchangeText(const CostModel& model) {
  std::string text;
  for (const ContextExchange& exchange : model.exchange) {
    absl::StrAppend(&text, text.empty() ? "" : " ", exchange.up_to_size, ":", exchange.per_token);
  }
  if (text.empty()) text = "none";
  if (model.exchange_overlaps) absl::StrAppend(&text, " overlaps");
  return text;
}

}  // namespace

absl::Status CheckCostModel(const CostModel& requested, const CostModel& used) {
  for (double coefficient :
       {used.per_token, used.per_token_squared, used.per_microbatch, used.per_sequence}) {
    if (!std::isfinite(coefficient) || coefficient < 0) {
      return Violation("cost_model_used has the coefficient ", coefficient);
    }
  }
  for (const ContextExchange& exchange : used.exchange) {
    if (!std::isfinite(exchange.per_token) || exchange.per_token < 0) {
      return Violation("cost_model_used.exchange has the coefficient ", exchange.per_token);
    }
  }
  if (used.per_token == 0 && used.per_token_squared == 0 && used.per_microbatch == 0 &&
      used.per_sequence == 0) {
    return Violation("cost_model_used has only coefficients of 0");
  }
  if (used.per_token != requested.per_token ||
      used.per_token_squared != requested.per_token_squared ||
      used.per_microbatch != requested.per_microbatch ||
      used.per_sequence != requested.per_sequence) {
    return Violation("cost_model_used is ", used.per_token, ", ", used.per_token_squared, ", ",
                     used.per_microbatch, ", ", used.per_sequence, ", but the request says ",
                     requested.per_token, ", ", requested.per_token_squared, ", ",
                     requested.per_microbatch, ", ", requested.per_sequence);
  }
  if (used.exchange != requested.exchange ||
      used.exchange_overlaps != requested.exchange_overlaps) {
    return Violation("cost_model_used.exchange is ", ExchangeText(used), ", but the request says ",
                     ExchangeText(requested));
  }
  return absl::OkStatus();
}

absl::Status CheckMetrics(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches) {
  std::vector<Load> loads;
  loads.reserve(microbatches.size());
  for (size_t m = 0; m < microbatches.size(); ++m) {
    loads.push_back(LoadOf(pass, m, microbatches[m]));
  }
  const Totals totals = Measure(pass, microbatches, loads);
  if (absl::Status status = CheckCounts(pass, totals); !status.ok()) return status;
  if (absl::Status status = CheckFinite(pass); !status.ok()) return status;
  if (absl::Status status = CheckRatios(pass, totals, BinBalance(Utilizations(loads)));
      !status.ok()) {
    return status;
  }
  return CheckTimes(pass, totals);
}

}  // namespace batchplan::checker
