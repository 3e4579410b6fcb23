#include "server/checker/check_group_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/checker/pipeline_events.h"
#include "server/checker/stated_metrics.h"

namespace batchplan::checker {
namespace {

const GroupDemands& SizeOf(const PassUnderCheck& pass, uint32_t ranks) {
  return *std::find_if(pass.pass_demands.groups.begin(), pass.pass_demands.groups.end(),
                       [&](const GroupDemands& size) { return size.ranks == ranks; });
}

// The smallest group that sequences can be ideally in: the smallest that holds one, unless such
// groups don't add up to the pool.
const GroupDemands& LeastSize(const PassUnderCheck& pass) {
  for (const GroupDemands& size : pass.pass_demands.groups) {
    if (size.length_limit == 0) continue;
    if (pass.demands.pool % size.ranks == 0) return size;
    break;
  }
  return pass.pass_demands.groups.back();
}

// Without exchange.
double Computation(const CostModel& model, double length, double ranks) {
  return (model.per_token * length + model.per_token_squared * length * length) / ranks +
         model.per_sequence;
}

double Exchange(const CostModel& model, double length, double ranks) {
  double exchange = 0;
  for (const ContextExchange& entry : model.exchange) {
    if (entry.up_to_size != 0 && entry.up_to_size < ranks) continue;
    exchange = entry.per_token * length * (ranks - 1) / ranks;
    break;
  }
  if (!model.exchange_overlaps) return exchange;
  return std::max(0.0, exchange - model.per_token_squared * length * length / ranks);
}

// What one micro-batch holds, and takes each of its ranks.
struct GroupLoad {
  uint64_t true_tokens = 0;
  uint64_t aligned_tokens = 0;
  double cost = 0;
};

GroupLoad GroupLoadOf(const PassUnderCheck& pass, const Microbatch& microbatch) {
  const CostModel& model = pass.request.cost_model;
  const GroupDemands& size = SizeOf(pass, microbatch.ranks);
  GroupLoad load;
  load.cost = model.per_microbatch;
  for (size_t p = microbatch.begin; p < microbatch.end; ++p) {
    const uint32_t length = pass.plan.sequence_lengths[p];
    const uint64_t aligned = AlignedLength(length, size.length_multiple);
    load.true_tokens += length;
    load.aligned_tokens += aligned;
    load.cost += Computation(model, static_cast<double>(aligned), size.ranks) +
                 Exchange(model, static_cast<double>(aligned), size.ranks);
  }
  return load;
}

struct GroupTotals {
  uint64_t true_tokens = 0;
  uint64_t aligned_tokens = 0;
  uint64_t slots = 0;
  double step_time = 0;
  // Of that, on pipelines, how long the busiest stage of the slowest part works; two numbers where
  // several parts are as slow.
  double least_stage_work = 0;
  double most_stage_work = 0;
  double busiest_tokens = 0;
  double busiest_cost = 0;
  double cost_of_ranks = 0;
  // How full the micro-batches are that are not empty, of their part of the budget.
  std::vector<double> filled;
};

// On pipelines: what the groups of one mini-batch take, the first rank and slot of each known.
struct GroupCost {
  size_t rank = 0;
  size_t slot = 0;
  double cost = 0;
};

// Ranks that share a group, in any slot, wait for each other in all of them; under LOCKSTEP all do,
// and where there are too many parts to simulate.
void AddPipelines(const PassUnderCheck& pass, const std::vector<GroupCost>& groups, size_t slots,
                  GroupTotals& totals) {
  // In how many slots a group begins at the rank.
  std::vector<size_t> begins(pass.demands.pool, 0);
  for (const GroupCost& group : groups) ++begins[group.rank];
  std::vector<size_t> part_of(pass.demands.pool, 0);
  for (size_t rank = 1; rank < part_of.size(); ++rank) {
    part_of[rank] = part_of[rank - 1] + (begins[rank] == slots ? 1 : 0);
  }
  const Topology& topology = pass.request.topology;
  const uint64_t stages = uint64_t{topology.pipeline_parallel} * topology.virtual_pipeline;
  const bool too_many = part_of.back() + 1 > kMaxPipelineWorks / stages / slots;
  if (too_many || pass.request.synchronization == Synchronization::kLockstep) {
    std::fill(part_of.begin(), part_of.end(), 0);
  }
  std::vector<std::vector<double>> parts(part_of.back() + 1, std::vector<double>(slots, 0));
  for (const GroupCost& group : groups) {
    double& slowest = parts[part_of[group.rank]][group.slot];
    slowest = std::max(slowest, group.cost);
  }
  std::vector<double> times;
  times.reserve(parts.size());
  for (const std::vector<double>& costs : parts) {
    times.push_back(
        PipelineTime(topology, pass.request.pipeline, pass.options.forward_only, costs));
  }
  const double slowest = *std::max_element(times.begin(), times.end());
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    if (times[part] < slowest * (1 - kTolerance)) continue;
    const double work = std::accumulate(parts[part].begin(), parts[part].end(), 0.0);
    least = std::min(least, work);
    most = std::max(most, work);
  }
  const double share = LargestStage(topology, pass.request.pipeline);
  totals.step_time += slowest;
  totals.least_stage_work += least * share;
  totals.most_stage_work += most * share;
}

// Adds the mini-batch whose micro-batches are [begin, end).
void AddMiniBatch(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches,
                  size_t begin, size_t end, GroupTotals& totals) {
  std::vector<double> tokens(pass.demands.pool, 0);
  std::vector<double> costs(pass.demands.pool, 0);
  std::vector<double> done(pass.demands.pool, 0);
  std::vector<double> slowest(microbatches[end - 1].slot + 1, 0);
  std::vector<GroupCost> groups;
  groups.reserve(end - begin);
  for (size_t m = begin; m < end; ++m) {
    const Microbatch& group = microbatches[m];
    const GroupLoad load = GroupLoadOf(pass, group);
    totals.true_tokens += load.true_tokens;
    totals.aligned_tokens += load.aligned_tokens;
    if (!group.empty()) {
      totals.filled.push_back(
          static_cast<double>(load.true_tokens) * pass.request.topology.context_parallel /
          (static_cast<double>(group.ranks) * pass.options.max_tokens_per_microbatch));
    }
    const auto first = static_cast<ptrdiff_t>(group.rank);
    const ptrdiff_t last = first + group.ranks;
    const double start = *std::max_element(done.begin() + first, done.begin() + last);
    for (ptrdiff_t rank = first; rank < last; ++rank) {
      tokens[rank] += static_cast<double>(load.aligned_tokens) / group.ranks;
      costs[rank] += load.cost;
      done[rank] = start + load.cost;
    }
    slowest[group.slot] = std::max(slowest[group.slot], load.cost);
    groups.push_back({.rank = group.rank, .slot = group.slot, .cost = load.cost});
  }
  totals.slots += slowest.size();
  totals.busiest_tokens += *std::max_element(tokens.begin(), tokens.end());
  totals.busiest_cost += *std::max_element(costs.begin(), costs.end());
  totals.cost_of_ranks += std::accumulate(costs.begin(), costs.end(), 0.0);
  if (pass.request.topology.pipeline_parallel > 1) {
    AddPipelines(pass, groups, slowest.size(), totals);
  } else if (pass.request.synchronization == Synchronization::kLockstep) {
    totals.step_time += std::accumulate(slowest.begin(), slowest.end(), 0.0);
  } else {
    totals.step_time += *std::max_element(done.begin(), done.end());
  }
}

// Sequences without exchange, of the least alignment, evenly on all ranks, in as few slots as have
// room for their tokens.
double IdealStepTime(const PassUnderCheck& pass) {
  const CostModel& model = pass.request.cost_model;
  const GroupDemands& least = LeastSize(pass);
  const double room =
      static_cast<double>(pass.demands.data_parallel) * pass.options.max_tokens_per_microbatch;
  double computation = 0;
  std::vector<double> tokens(pass.pass_demands.mini_batches, 0);
  const PassPlan& plan = pass.plan;
  size_t m = 0;
  for (size_t k = 0; k < tokens.size(); ++k) {
    for (uint32_t slot = 0; slot < plan.microbatches_per_rank[k]; ++slot) {
      for (uint64_t ranks = 0; ranks < pass.demands.pool; ranks += plan.context_sizes[m++]) {
        for (size_t p = plan.microbatch_offsets[m]; p < plan.microbatch_offsets[m + 1]; ++p) {
          const auto length =
              static_cast<double>(AlignedLength(plan.sequence_lengths[p], least.length_multiple));
          tokens[k] += length;
          computation += Computation(model, length, least.ranks);
        }
      }
    }
  }
  double slots = 0;
  for (const double all : tokens) slots += std::ceil(all / room);
  return (computation * least.ranks / static_cast<double>(pass.demands.pool) +
          model.per_microbatch * slots) /
         pass.request.topology.pipeline_parallel;
}

}  // namespace

absl::Status CheckGroupMetrics(const PassUnderCheck& pass,
                               const std::vector<Microbatch>& microbatches) {
  const PassPlan& plan = pass.plan;
  const PlanMetrics& metrics = plan.metrics;
  GroupTotals totals;
  for (size_t begin = 0; begin < microbatches.size();) {
    size_t end = begin;
    while (end < microbatches.size() &&
           microbatches[end].mini_batch == microbatches[begin].mini_batch) {
      ++end;
    }
    AddMiniBatch(pass, microbatches, begin, end, totals);
    begin = end;
  }
  const uint64_t scheduled =
      std::accumulate(plan.row_widths.begin(), plan.row_widths.end(), uint64_t{0});
  const uint64_t naive_width =
      pass.manifest.pad_to != 0
          ? pass.manifest.pad_to
          : *std::max_element(plan.sequence_lengths.begin(), plan.sequence_lengths.end());
  const uint64_t naive = naive_width * pass.demands.planned_sequences;
  const uint64_t budget = pass.options.max_tokens_per_microbatch;
  // Of a slot.
  const uint64_t room = pass.demands.data_parallel * budget;
  const double all_room = static_cast<double>(totals.slots) * static_cast<double>(room);
  const double utilization = static_cast<double>(totals.true_tokens) / all_room;
  const uint64_t by_volume = totals.true_tokens / room + (totals.true_tokens % room == 0 ? 0 : 1);
  const double scheduled_share = static_cast<double>(scheduled) / static_cast<double>(naive);
  const double pool = static_cast<double>(pass.demands.pool);
  const double ideal = IdealStepTime(pass);
  const bool is_pipeline = pass.request.topology.pipeline_parallel > 1 && totals.step_time > 0;
  const double least_bubble = is_pipeline ? 1 - totals.most_stage_work / totals.step_time : 0;
  const double most_bubble = is_pipeline ? 1 - totals.least_stage_work / totals.step_time : 0;
  for (const absl::Status& status : {
           CheckExact(pass, "microbatches", metrics.microbatches, plan.row_widths.size()),
           CheckExact(pass, "true_tokens", metrics.true_tokens, totals.true_tokens),
           CheckExact(pass, "aligned_tokens", metrics.aligned_tokens, totals.aligned_tokens),
           CheckExact(pass, "scheduled_tokens", metrics.scheduled_tokens, scheduled),
           CheckExact(pass, "naive_tokens", metrics.naive_tokens, naive),
           CheckNear(pass, "bin_utilization", metrics.bin_utilization, utilization, kTolerance),
           CheckNear(pass, "aligned_bin_utilization", metrics.aligned_bin_utilization,
                     static_cast<double>(totals.aligned_tokens) / all_room, kTolerance),
           CheckNear(pass, "waste_ratio", metrics.waste_ratio, 1 - utilization, kTolerance),
           CheckNear(pass, "bin_balance", metrics.bin_balance, BinBalance(totals.filled),
                     kTolerance),
           CheckNear(pass, "packing_efficiency", metrics.packing_efficiency,
                     static_cast<double>(by_volume) / static_cast<double>(totals.slots),
                     kTolerance),
           CheckNear(pass, "padding_removed", metrics.padding_removed, 1 - scheduled_share,
                     kTolerance * (1 + scheduled_share)),
           CheckNear(pass, "rank_token_imbalance", metrics.rank_token_imbalance,
                     totals.busiest_tokens / static_cast<double>(totals.aligned_tokens) * pool,
                     kTolerance * pool),
           CheckNear(pass, "rank_cost_imbalance", metrics.rank_cost_imbalance,
                     totals.busiest_cost / totals.cost_of_ranks * pool, kTolerance * pool),
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

}  // namespace batchplan::checker
