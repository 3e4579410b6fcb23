#include "client/cli/output/microbatches.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/planner/request/cost.h"
#include "server/planner/time/schedule.h"
#include "server/planner/time/step_clock.h"

namespace batchplan::cli {
namespace {

// Checks that context_sizes, if there are any, divide the pool in every slot.
absl::Status CheckGroups(const v1::PassPlan& plan, uint32_t pool) {
  int next = 0;
  for (const uint32_t slots : plan.microbatches_per_rank()) {
    for (uint32_t slot = 0; slot < slots; ++slot) {
      uint64_t ranks = 0;
      while (ranks < pool && next < plan.context_sizes_size() && plan.context_sizes(next) > 0) {
        ranks += plan.context_sizes(next++);
      }
      if (ranks == pool) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the plan's context_sizes of a slot add up to ", ranks, ", not to the ", pool, " ranks"));
    }
  }
  if (next == plan.context_sizes_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the plan has ", plan.context_sizes_size(),
                                                 " context_sizes, but slots of ", next, " groups"));
}

// Checks that no sequence shares more tokens than it or the one before it in the row has.
absl::Status CheckSharedTokens(const v1::PassPlan& plan) {
  if (plan.shared_tokens_size() == 0) return absl::OkStatus();
  if (plan.shared_tokens_size() != plan.sequence_lengths_size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", plan.shared_tokens_size(),
                                                   " shared_tokens for ",
                                                   plan.sequence_lengths_size(), " sequences"));
  }
  for (int m = 0; m < plan.row_widths_size(); ++m) {
    uint32_t before = 0;
    for (uint32_t i = plan.microbatch_offsets(m); i < plan.microbatch_offsets(m + 1); ++i) {
      const uint32_t length = plan.sequence_lengths(static_cast<int>(i));
      const uint32_t shared = plan.shared_tokens(static_cast<int>(i));
      if (shared > std::min(before, length)) {
        return absl::InvalidArgumentError(
            absl::StrCat("the plan's shared_tokens[", i, "] is ", shared, ", of a sequence of ",
                         length, " tokens behind one of ", before, " in its row"));
      }
      before = length;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const v1::PassPlan& plan, const Topology& topology) {
  uint64_t microbatches = 0;
  if (topology.dynamic_context) {
    if (absl::Status groups = CheckGroups(plan, RanksOf(topology)); !groups.ok()) return groups;
    microbatches = static_cast<uint64_t>(plan.context_sizes_size());
  } else {
    for (const uint32_t per_rank : plan.microbatches_per_rank()) {
      microbatches += uint64_t{per_rank} * topology.data_parallel;
    }
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
  return CheckSharedTokens(plan);
}

// Checks that an interleaved schedule has whole groups of micro-batches.
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

// What each rank of a group of `ranks` spends on exchanging one token.
double ExchangePerToken(const v1::CostModel& model, uint32_t ranks) {
  CostModel by_size;
  for (const v1::Exchange& entry : model.exchange()) {
    by_size.exchange.push_back({.up_to_size = entry.up_to_size(), .per_token = entry.per_token()});
  }
  return batchplan::ExchangePerToken(by_size, ranks);
}

// How many of the first tokens of the sequence at `place` the row has already.
uint32_t SharedTokens(const v1::PassPlan& plan, uint32_t place) {
  return plan.shared_tokens_size() > 0 ? plan.shared_tokens(static_cast<int>(place)) : 0;
}

// Fills in the content of a micro-batch whose place and size are set.
void FillIn(const v1::PassPlan& plan, Layout layout, int ordinal, Microbatch& microbatch) {
  microbatch.begin = plan.microbatch_offsets(ordinal);
  microbatch.end = plan.microbatch_offsets(ordinal + 1);
  microbatch.row_width = plan.row_widths(ordinal);
  for (uint32_t i = microbatch.begin; i < microbatch.end; ++i) {
    const uint32_t length = plan.sequence_lengths(static_cast<int>(i));
    const uint32_t laid = length - SharedTokens(plan, i);
    microbatch.true_tokens += length;
    microbatch.laid_tokens += laid;
    // In a row of shared tokens no sequence is aligned.
    microbatch.aligned_tokens +=
        plan.shared_tokens_size() > 0 ? laid : Align(length, microbatch.length_multiple);
  }
  microbatch.scheduled_tokens = layout == Layout::kPadded
                                    ? uint64_t{microbatch.row_width} * microbatch.sequences()
                                    : microbatch.row_width;
}

// Lists groups that differ in size, slot by slot.
std::vector<Microbatch> ListGroups(const v1::PassPlan& plan, Layout layout,
                                   const Topology& topology) {
  const uint32_t tensor = topology.sequence_parallel ? topology.tensor_parallel : 1;
  std::vector<Microbatch> microbatches;
  for (int mini_batch = 0; mini_batch < plan.microbatches_per_rank_size(); ++mini_batch) {
    for (uint32_t slot = 0; slot < plan.microbatches_per_rank(mini_batch); ++slot) {
      for (uint32_t rank = 0; rank < RanksOf(topology);) {
        const int ordinal = static_cast<int>(microbatches.size());
        const uint32_t size = plan.context_sizes(ordinal);
        Microbatch& microbatch = microbatches.emplace_back();
        microbatch.mini_batch = static_cast<uint32_t>(mini_batch);
        microbatch.rank = rank;
        microbatch.slot = slot;
        microbatch.context_parallel = size;
        microbatch.length_multiple = size == 1
                                         ? plan.length_multiple()
                                         : std::lcm(plan.length_multiple(), 2 * size * tensor);
        FillIn(plan, layout, ordinal, microbatch);
        rank += size;
      }
    }
  }
  return microbatches;
}

}  // namespace

uint32_t RanksOf(const Topology& topology) {
  return topology.dynamic_context ? topology.data_parallel * topology.context_parallel
                                  : topology.data_parallel;
}

uint64_t Align(uint64_t length, uint32_t multiple) {
  return multiple <= 1 ? length : (length + multiple - 1) / multiple * multiple;
}

absl::StatusOr<std::vector<Microbatch>> ListMicrobatches(const v1::PassPlan& plan, Layout layout,
                                                         const Topology& topology) {
  if (absl::Status shape = CheckShape(plan, topology); !shape.ok()) return shape;
  if (topology.dynamic_context) return ListGroups(plan, layout, topology);
  std::vector<Microbatch> microbatches;
  microbatches.reserve(plan.row_widths_size());
  for (int mini_batch = 0; mini_batch < plan.microbatches_per_rank_size(); ++mini_batch) {
    for (uint32_t rank = 0; rank < topology.data_parallel; ++rank) {
      for (uint32_t slot = 0; slot < plan.microbatches_per_rank(mini_batch); ++slot) {
        const int ordinal = static_cast<int>(microbatches.size());
        Microbatch& microbatch = microbatches.emplace_back();
        microbatch.mini_batch = static_cast<uint32_t>(mini_batch);
        microbatch.rank = rank;
        microbatch.slot = slot;
        microbatch.context_parallel = topology.context_parallel;
        microbatch.length_multiple = plan.length_multiple();
        FillIn(plan, layout, ordinal, microbatch);
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
    absl::StatusOr<std::vector<Microbatch>> microbatches =
        ListMicrobatches(response.passes(pass), options.passes[pass].layout, options.topology);
    if (!microbatches.ok()) return microbatches.status();
    absl::Status counts = CheckCounts(response.passes(pass), options);
    if (!counts.ok()) return counts;
    passes.push_back(*std::move(microbatches));
  }
  return passes;
}

double MicrobatchCost(const Microbatch& microbatch, const v1::PassPlan& plan, Layout layout,
                      const v1::CostModel& model) {
  const double exchange = ExchangePerToken(model, microbatch.context_parallel);
  double cost = model.per_microbatch() +
                model.per_sequence() * (microbatch.end - microbatch.begin) + microbatch.load_cost;
  for (uint32_t i = microbatch.begin; i < microbatch.end; ++i) {
    const uint32_t length = plan.sequence_lengths(static_cast<int>(i));
    const double shared = SharedTokens(plan, i);
    // The padded layout also computes the padding; a row of shared tokens has no padding inside.
    const auto end = static_cast<double>(layout == Layout::kPadded ? microbatch.row_width
                                         : plan.shared_tokens_size() > 0
                                             ? length
                                             : Align(length, microbatch.length_multiple));
    const double computed = end - shared;
    const double attention =
        SharedCost(model, 0, end * end - shared * shared, microbatch.context_parallel);
    const double hidden = model.exchange_overlaps() ? attention : 0;
    cost += SharedCost(model, computed, 0, microbatch.context_parallel) + attention +
            std::max(0.0, exchange * computed - hidden);
  }
  if (layout == Layout::kPacked && microbatch.row_width > microbatch.aligned_tokens) {
    const uint64_t tail = microbatch.row_width - microbatch.aligned_tokens;
    cost += SharedCost(model, static_cast<double>(tail), 0, microbatch.context_parallel);
  }
  return cost;
}

std::vector<RankLoad> SumByRank(const std::vector<Microbatch>& microbatches,
                                const v1::PassPlan& plan, const PlanOptions& options,
                                const PassOptions& pass, const v1::CostModel& cost_model) {
  const bool dynamic = options.topology.dynamic_context.has_value();
  std::vector<RankLoad> ranks(RanksOf(options.topology));
  for (const Microbatch& microbatch : microbatches) {
    const double cost =
        std::reduce(microbatch.separate_costs.begin(), microbatch.separate_costs.end(),
                    MicrobatchCost(microbatch, plan, pass.layout, cost_model));
    const uint32_t size = dynamic ? microbatch.context_parallel : 1;
    for (uint32_t i = 0; i < size; ++i) {
      RankLoad& rank = ranks[microbatch.rank + i];
      ++rank.microbatches;
      rank.sequences += microbatch.sequences();
      rank.laid_tokens += microbatch.laid_tokens / size;
      rank.room += dynamic ? pass.max_tokens_per_microbatch / options.topology.context_parallel
                           : std::max(microbatch.row_width, pass.max_tokens_per_microbatch);
      rank.cost += cost;
    }
  }
  return ranks;
}

StepTimes PredictStepTimes(const std::vector<Microbatch>& microbatches, const v1::PassPlan& plan,
                           const PlanOptions& options, const PassOptions& pass,
                           const v1::CostModel& cost_model) {
  const Pipeline pipeline = PipelineOf(options.topology, options.pipeline, pass.forward_only);
  const Pipeline* const on = options.topology.pipeline_parallel > 1 ? &pipeline : nullptr;
  const StepClock lockstep(Synchronization::kLockstep, on);
  const StepClock accumulated(Synchronization::kAccumulated, on);
  StepTimes times;
  for (size_t begin = 0; begin < microbatches.size();) {
    // Sorted by slot, within a slot by rank.
    std::vector<const Microbatch*> step;
    const uint32_t mini_batch = microbatches[begin].mini_batch;
    for (; begin < microbatches.size() && microbatches[begin].mini_batch == mini_batch; ++begin) {
      step.push_back(&microbatches[begin]);
    }
    std::ranges::stable_sort(step, {}, &Microbatch::slot);
    // The cost of each micro-batch in every phase, and over all phases.
    std::vector<std::vector<double>> phases(1);
    std::vector<double> all;
    all.reserve(step.size());
    for (const Microbatch* microbatch : step) {
      phases[0].push_back(MicrobatchCost(*microbatch, plan, pass.layout, cost_model));
      all.push_back(phases[0].back());
      size_t phase = 0;
      for (const auto& costs : {microbatch->separate_costs, microbatch->dealt_costs}) {
        for (const double cost : costs) {
          if (++phase == phases.size()) phases.emplace_back();
          phases[phase].push_back(cost);
          all.back() += cost;
        }
      }
    }
    const auto slots_of = [&](const std::vector<double>& costs) {
      TimedSlotsOf<double> slots;
      for (size_t m = 0; m < step.size(); ++m) {
        if (m > 0 && step[m]->slot != step[m - 1]->slot) slots.Close();
        slots.Add(options.topology.dynamic_context ? step[m]->context_parallel : 1, costs[m]);
      }
      slots.Close();
      return slots;
    };
    for (const std::vector<double>& phase : phases) times.lockstep += lockstep.Of(slots_of(phase));
    times.accumulated += accumulated.Of(slots_of(all));
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
    std::vector<std::vector<uint64_t>> ranks(RanksOf(options.topology));
    for (uint64_t left = uint64_t{slots} * ranks.size(); left > 0; ++begin) {
      const Microbatch& microbatch = microbatches[begin];
      const uint32_t listed = options.topology.dynamic_context ? microbatch.context_parallel : 1;
      for (uint32_t i = 0; i < listed; ++i) {
        ranks[microbatch.rank + i].push_back(microbatch.scheduled_tokens /
                                             microbatch.context_parallel);
      }
      left -= listed;
    }
    for (const std::vector<uint64_t>& tokens : ranks) {
      uint64_t held = 0;
      for (size_t forward = 0; forward < order.microbatch.size(); ++forward) {
        held += tokens[order.microbatch[forward]];
        if (forward > before) held -= tokens[order.microbatch[forward - before - 1]];
        most = std::max(most, held);
      }
    }
  }
  return pipeline.forward_only ? most : (most + pipeline.chunks - 1) / pipeline.chunks;
}

}  // namespace batchplan::cli
