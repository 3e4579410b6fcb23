#include "server/explain/request_rules.h"

#include <algorithm>
#include <cstdint>

#include "server/planner/request/context_sizes.h"
#include "server/planner/request/lengths.h"

namespace batchplan::explain {
namespace {

bool HasPhases(const PlanOptions& options) {
  return std::ranges::any_of(options.cost_model.loads, &LoadCost::has_phase);
}

// A budget that holds all sequences of the plan in one micro-batch, or the largest there can be.
uint32_t BudgetOfAll(const PlanOptions& options, const PassPlan& plan) {
  // Lengths are rounded up to at most this.
  const uint64_t multiple =
      2 * PoolOf(options.topology) * options.topology.tensor_parallel * plan.length_multiple;
  uint64_t all = 0;
  uint64_t longest = 0;
  for (const uint32_t length : plan.sequence_lengths) {
    const uint64_t aligned = (length + multiple - 1) / multiple * multiple;
    all += aligned;
    longest = std::max(longest, aligned);
  }
  all = std::max<uint64_t>(all, longest * plan.sequence_lengths.size());
  return static_cast<uint32_t>(std::min<uint64_t>(all, kMaxGroupTokens));
}

}  // namespace

std::vector<Cause> RulesOf(const Request& request, size_t pass) {
  const PlanOptions& options = request.options;
  const PassOptions& own = options.passes[pass];
  std::vector<Cause> rules;
  const auto add = [&](bool is_kept, Cause rule) {
    if (is_kept) rules.push_back(rule);
  };
  add(own.kinds_per_slot != KindsPerSlot::kAny && !request.manifest.kinds.empty(), Cause::kKinds);
  add(!own.limits.empty(), Cause::kLoadLimits);
  add(HasPhases(options), Cause::kLoadPhases);
  add(own.sequence_count_multiple > 1, Cause::kSequenceMultiple);
  add(options.passes.front().keeps_counts() && !own.ignore_mini_batches, Cause::kEqualCounts);
  add(own.min_microbatches > 1 || own.microbatch_count_multiple > 1, Cause::kMicrobatchCounts);
  add(!request.manifest.ranks.empty(), Cause::kGivenRanks);
  add(!request.manifest.group_ids.empty() &&
          (options.mini_batches.groups == GroupPolicy::kSameRank ||
           options.mini_batches.groups == GroupPolicy::kSameMicrobatch),
      Cause::kGroups);
  add(request.mini_batches.slots.size() > 1, Cause::kMiniBatches);
  add(own.max_sequences_per_microbatch > 0, Cause::kSequenceLimit);
  add(true, Cause::kBudget);
  return rules;
}

void GiveUp(Cause rule, const PassPlan& plan, Request& request) {
  for (PassOptions& pass : request.options.passes) {
    if (rule == Cause::kKinds) pass.kinds_per_slot = KindsPerSlot::kAny;
    if (rule == Cause::kLoadLimits) pass.limits.clear();
    if (rule == Cause::kSequenceMultiple) pass.sequence_count_multiple = 1;
    if (rule == Cause::kEqualCounts) pass.sequence_counts = EqualCounts::kAny;
    if (rule == Cause::kMicrobatchCounts)
      pass.min_microbatches = pass.microbatch_count_multiple = 1;
    if (rule == Cause::kSequenceLimit) pass.max_sequences_per_microbatch = 0;
    if (rule == Cause::kBudget) {
      pass.max_tokens_per_microbatch =
          std::max(pass.max_tokens_per_microbatch, BudgetOfAll(request.options, plan));
      pass.rows = RowPadding::kNone;
      pass.buckets.clear();
    }
  }
  if (rule == Cause::kLoadPhases) {
    for (LoadCost& load : request.options.cost_model.loads) load.separate = load.dealt = false;
  }
  if (rule == Cause::kGivenRanks) request.manifest.ranks = {};
  if (rule == Cause::kGroups) request.options.mini_batches.groups = GroupPolicy::kSameMiniBatch;
  if (rule == Cause::kMiniBatches) request.mini_batches = request.mini_batches.AsOne();
}

void GiveUpPipeline(Request& request) {
  request.options.topology.pipeline_parallel = 1;
  request.options.topology.virtual_pipeline = 1;
  request.options.pipeline = {};
}

}  // namespace batchplan::explain
