#include "client/cli/output/microbatches.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/planner/pipeline/schedule.h"
#include "server/planner/step_time.h"

namespace batchplan::cli {
namespace {

absl::Status CheckShape(const v1::PassPlan& plan, uint32_t data_parallel) {
  uint64_t microbatches = 0;
  for (const uint32_t per_rank : plan.microbatches_per_rank()) {
    microbatches += uint64_t{per_rank} * data_parallel;
  }
  const auto& offsets = plan.microbatch_offsets();
  if (static_cast<uint64_t>(offsets.size()) != microbatches + 1) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", offsets.size(),
                                                   " microbatch_offsets for ", microbatches,
                                                   " micro-batches"));
  }
  if (static_cast<uint64_t>(plan.row_widths_size()) != microbatches) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", plan.row_widths_size(),
                                                   " row_widths for ", microbatches,
                                                   " micro-batches"));
  }
  if (offsets[0] != 0 || !std::is_sorted(offsets.begin(), offsets.end()) ||
      offsets[offsets.size() - 1] != static_cast<uint32_t>(plan.sequence_index_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan's microbatch_offsets do not ascend from 0 to its ",
                     plan.sequence_index_size(), " sequences"));
  }
  if (plan.sequence_lengths_size() != plan.sequence_index_size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", plan.sequence_lengths_size(),
                                                   " sequence_lengths for ",
                                                   plan.sequence_index_size(), " sequences"));
  }
  return absl::OkStatus();
}

// Interleaved, a schedule is one of whole groups.
absl::Status CheckCounts(const v1::PassPlan& plan, const PlanOptions& options) {
  if (options.topology.virtual_pipeline == 1) return absl::OkStatus();
  const uint32_t group = options.pipeline.group_size > 0 ? options.pipeline.group_size
                                                         : options.topology.pipeline_parallel;
  for (int i = 0; i < plan.microbatches_per_rank_size(); ++i) {
    if (plan.microbatches_per_rank(i) % group == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the plan's microbatches_per_rank[", i, "] is ", plan.microbatches_per_rank(i),
                     ", not a multiple of the ", group, " of a group of the interleaved schedule"));
  }
  return absl::OkStatus();
}

double SharedCost(const v1::CostModel& model, double tokens, double squares, uint32_t ranks) {
  return (model.per_token() * tokens + model.per_token_squared() * squares) / ranks;
}

// Of one mini-batch, micro-batch by micro-batch.
StepTimes WithoutPipeline(const std::vector<double>& costs, size_t slots) {
  std::vector<double> slowest(slots, 0);
  StepTimes times;
  for (size_t begin = 0; begin < costs.size(); begin += slots) {
    double sum = 0;
    for (size_t slot = 0; slot < slots; ++slot) {
      slowest[slot] = std::max(slowest[slot], costs[begin + slot]);
      sum += costs[begin + slot];
    }
    times.accumulated = std::max(times.accumulated, sum);
  }
  times.lockstep = std::accumulate(slowest.begin(), slowest.end(), 0.0);
  return times;
}

}  // namespace

uint64_t Align(uint64_t length, uint32_t multiple) {
  return multiple <= 1 ? length : (length + multiple - 1) / multiple * multiple;
}

absl::StatusOr<std::vector<Microbatch>> ListMicrobatches(const v1::PassPlan& plan, Layout layout,
                                                         uint32_t data_parallel) {
  if (absl::Status shape = CheckShape(plan, data_parallel); !shape.ok()) return shape;
  std::vector<Microbatch> microbatches;
  microbatches.reserve(plan.row_widths_size());
  for (int mini_batch = 0; mini_batch < plan.microbatches_per_rank_size(); ++mini_batch) {
    for (uint32_t rank = 0; rank < data_parallel; ++rank) {
      for (uint32_t slot = 0; slot < plan.microbatches_per_rank(mini_batch); ++slot) {
        const int ordinal = static_cast<int>(microbatches.size());
        Microbatch& microbatch = microbatches.emplace_back();
        microbatch.mini_batch = static_cast<uint32_t>(mini_batch);
        microbatch.rank = rank;
        microbatch.slot = slot;
        microbatch.begin = plan.microbatch_offsets(ordinal);
        microbatch.end = plan.microbatch_offsets(ordinal + 1);
        microbatch.row_width = plan.row_widths(ordinal);
        for (uint32_t i = microbatch.begin; i < microbatch.end; ++i) {
          const uint32_t length = plan.sequence_lengths(static_cast<int>(i));
          microbatch.true_tokens += length;
          microbatch.aligned_tokens += Align(length, plan.length_multiple());
        }
        microbatch.scheduled_tokens = layout == Layout::kPadded
                                          ? uint64_t{microbatch.row_width} * microbatch.sequences()
                                          : microbatch.row_width;
      }
    }
  }
  return microbatches;
}

absl::StatusOr<std::vector<std::vector<Microbatch>>> ListPasses(
    const PlanOptions& options, const v1::PlanBatchResponse& response) {
  if (static_cast<size_t>(response.passes_size()) != options.passes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", response.passes_size(),
                                                   " passes, the request ", options.passes.size()));
  }
  std::vector<std::vector<Microbatch>> passes;
  for (int pass = 0; pass < response.passes_size(); ++pass) {
    absl::StatusOr<std::vector<Microbatch>> microbatches = ListMicrobatches(
        response.passes(pass), options.passes[pass].layout, options.topology.data_parallel);
    if (!microbatches.ok()) return microbatches.status();
    absl::Status counts = CheckCounts(response.passes(pass), options);
    if (!counts.ok()) return counts;
    passes.push_back(*std::move(microbatches));
  }
  return passes;
}

double MicrobatchCost(const Microbatch& microbatch, const v1::PassPlan& plan, Layout layout,
                      uint32_t context_parallel, const v1::CostModel& model) {
  double cost = model.per_microbatch() + model.per_sequence() * (microbatch.end - microbatch.begin);
  for (uint32_t i = microbatch.begin; i < microbatch.end; ++i) {
    // The padded layout computes the padding.
    const auto computed = static_cast<double>(
        layout == Layout::kPadded
            ? microbatch.row_width
            : Align(plan.sequence_lengths(static_cast<int>(i)), plan.length_multiple()));
    cost += SharedCost(model, computed, computed * computed, context_parallel);
  }
  if (layout == Layout::kPacked && microbatch.row_width > microbatch.aligned_tokens) {
    const uint64_t tail = microbatch.row_width - microbatch.aligned_tokens;
    cost += SharedCost(model, static_cast<double>(tail), 0, context_parallel);
  }
  return cost;
}

std::vector<RankLoad> SumByRank(const std::vector<Microbatch>& microbatches,
                                const v1::PassPlan& plan, const PlanOptions& options,
                                const PassOptions& pass, const v1::CostModel& cost_model) {
  std::vector<RankLoad> ranks(options.topology.data_parallel);
  for (const Microbatch& microbatch : microbatches) {
    RankLoad& rank = ranks[microbatch.rank];
    ++rank.microbatches;
    rank.sequences += microbatch.sequences();
    rank.true_tokens += microbatch.true_tokens;
    rank.room += std::max(microbatch.row_width, pass.max_tokens_per_microbatch);
    rank.cost += MicrobatchCost(microbatch, plan, pass.layout, options.topology.context_parallel,
                                cost_model);
  }
  return ranks;
}

StepTimes PredictStepTimes(const std::vector<Microbatch>& microbatches, const v1::PassPlan& plan,
                           const PlanOptions& options, const PassOptions& pass,
                           const v1::CostModel& cost_model) {
  const Topology& topology = options.topology;
  const size_t ranks = topology.data_parallel;
  StepTimes times;
  size_t next = 0;
  for (const uint32_t slots : plan.microbatches_per_rank()) {
    std::vector<double> costs(ranks * slots);
    for (double& cost : costs) {
      cost = MicrobatchCost(microbatches[next++], plan, pass.layout, topology.context_parallel,
                            cost_model);
    }
    if (costs.empty()) continue;
    StepTimes step;
    if (topology.pipeline_parallel > 1) {
      const Pipeline pipeline = PipelineOf(topology, options.pipeline, pass.forward_only);
      const auto time = [&](Synchronization synchronization) {
        return PipelineTimeOf(pipeline, synchronization, costs, ranks).makespan;
      };
      step = {.lockstep = time(Synchronization::kLockstep),
              .accumulated = time(Synchronization::kAccumulated)};
    } else {
      step = WithoutPipeline(costs, slots);
    }
    times.lockstep += step.lockstep;
    times.accumulated += step.accumulated;
  }
  return times;
}

uint64_t MostTokensInFlight(const std::vector<Microbatch>& microbatches, const v1::PassPlan& plan,
                            const PlanOptions& options, const PassOptions& pass) {
  const Pipeline pipeline = PipelineOf(options.topology, options.pipeline, pass.forward_only);
  uint64_t most = 0;
  size_t begin = 0;
  for (const uint32_t slots : plan.microbatches_per_rank()) {
    const RunOrder order = RunOrderOf(pipeline, slots);
    const uint64_t before = pipeline.forward_only ? 0 : pipeline.Warmup(/*stage=*/0, slots);
    for (uint32_t rank = 0; rank < options.topology.data_parallel; ++rank, begin += slots) {
      const auto tokens = [&](size_t position) {
        return microbatches[begin + order.microbatch[position]].scheduled_tokens;
      };
      uint64_t held = 0;
      for (size_t forward = 0; forward < order.microbatch.size(); ++forward) {
        held += tokens(forward);
        if (forward > before) held -= tokens(forward - before - 1);
        most = std::max(most, held);
      }
    }
  }
  return pipeline.forward_only ? most : (most + pipeline.chunks - 1) / pipeline.chunks;
}

}  // namespace batchplan::cli
