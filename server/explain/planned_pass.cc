#include "server/explain/planned_pass.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/planner/pass/placement.h"
#include "server/planner/ranks/bounds.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/context_sizes.h"
#include "server/planner/request/pass_limits.h"

namespace batchplan::explain {
namespace {

// What bounds may spend, those of one pass together.
constexpr uint64_t kTicks = 200'000'000;

absl::Status Misfit(size_t pass, absl::string_view field, uint64_t entries, uint64_t wanted) {
  return absl::InvalidArgumentError(absl::StrCat("the plan's passes[", pass, "].", field, " has ",
                                                 entries, " entries; must have ", wanted));
}

// The micro-batches that the slots of a pass have; any number that is wrong if a slot's groups do
// not add up to the pool.
uint64_t MicrobatchesOfSlots(const PlanOptions& options, const PassPlan& plan) {
  uint64_t slots = 0;
  for (const uint32_t own : plan.microbatches_per_rank) slots += own;
  if (!options.topology.dynamic_context) return slots * options.topology.data_parallel;
  const uint64_t pool = PoolOf(options.topology);
  uint64_t ranks = 0;
  uint64_t full = 0;
  for (const uint32_t size : plan.context_sizes) {
    ranks += size;
    if (size == 0 || ranks > pool) return std::numeric_limits<uint64_t>::max();
    if (ranks < pool) continue;
    ranks = 0;
    ++full;
  }
  return ranks == 0 && full == slots ? plan.context_sizes.size()
                                     : std::numeric_limits<uint64_t>::max();
}

absl::Status CheckPassArrays(const Manifest& manifest, const PlanOptions& options, size_t number,
                             const PassPlan& plan) {
  const uint64_t microbatches = MicrobatchesOfSlots(options, plan);
  const size_t sequences = plan.sequence_index.size();
  if (plan.row_widths.size() != microbatches) {
    return Misfit(number, "row_widths", plan.row_widths.size(), microbatches);
  }
  if (plan.microbatch_offsets.size() != microbatches + 1) {
    return Misfit(number, "microbatch_offsets", plan.microbatch_offsets.size(), microbatches + 1);
  }
  if (plan.sequence_lengths.size() != sequences) {
    return Misfit(number, "sequence_lengths", plan.sequence_lengths.size(), sequences);
  }
  const std::vector<uint32_t>& shared = plan.shared_tokens;
  if (!shared.empty() && shared.size() != sequences) {
    return Misfit(number, "shared_tokens", shared.size(), sequences);
  }
  for (size_t i = 0; i < shared.size(); ++i) {
    if (shared[i] > plan.sequence_lengths[i]) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan's passes[", number, "].shared_tokens[", i, "] is ", shared[i],
                       ", and its sequence has ", plan.sequence_lengths[i], " tokens"));
    }
  }
  if (plan.microbatch_offsets.front() != 0 || plan.microbatch_offsets.back() != sequences ||
      !std::ranges::is_sorted(plan.microbatch_offsets)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan's passes[", number,
                     "].microbatch_offsets do not ascend from 0 to its ", sequences, " sequences"));
  }
  if (sequences == 0) return Misfit(number, "sequence_index", 0, 1);
  std::vector<bool> planned(manifest.lengths.size(), false);
  for (size_t i = 0; i < sequences; ++i) {
    const uint32_t sequence = plan.sequence_index[i];
    if (sequence >= planned.size() || planned[sequence] || plan.sequence_lengths[i] == 0) {
      return absl::InvalidArgumentError(absl::StrCat("the plan's passes[", number,
                                                     "].sequence_index[", i, "] is ", sequence,
                                                     ", which the request does not have once"));
    }
    planned[sequence] = true;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckArrays(const Manifest& manifest, const PlanOptions& options, const Plan& plan) {
  if (plan.passes.size() != options.passes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", plan.passes.size(),
                                                   " passes, the request ", options.passes.size()));
  }
  for (size_t i = 0; i < plan.passes.size(); ++i) {
    absl::Status status = CheckPassArrays(manifest, options, i, plan.passes[i]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

PlannedMiniBatches PlannedMiniBatches::AsOne() const {
  PlannedMiniBatches one;
  for (size_t k = 0; k < sequences.size(); ++k) one.sequences.Push(sequences[k]);
  one.sequences.Close();
  one.slots = {0};
  for (const uint32_t own : slots) one.slots.front() += own;
  return one;
}

PlannedMiniBatches MiniBatchesOf(const PlanOptions& options, const PassPlan& plan) {
  PlannedMiniBatches mini_batches;
  mini_batches.slots = plan.microbatches_per_rank;
  const uint64_t pool = PoolOf(options.topology);
  size_t m = 0;
  for (const uint32_t slots : plan.microbatches_per_rank) {
    const uint64_t ranks = options.topology.dynamic_context ? pool : options.topology.data_parallel;
    std::vector<SequenceIndex> own;
    for (uint64_t places = slots * ranks; places > 0; ++m) {
      for (uint32_t i = plan.microbatch_offsets[m]; i < plan.microbatch_offsets[m + 1]; ++i) {
        own.emplace_back(plan.sequence_index[i]);
      }
      places -= options.topology.dynamic_context ? plan.context_sizes[m] : 1;
    }
    // As the planner had them, so that its bounds come out alike.
    std::ranges::sort(own);
    mini_batches.sequences.Push(own);
    mini_batches.sequences.Close();
  }
  return mini_batches;
}

PlannedPass::PlannedPass(const Manifest& manifest, const PlanOptions& options)
    : manifest_(manifest),
      options_(options),
      groups_(manifest_, options_.mini_batches.policy()),
      loads_(manifest_) {}

absl::StatusOr<std::unique_ptr<PlannedPass>> PlannedPass::Create(const Manifest& manifest,
                                                                 const PlanOptions& options,
                                                                 size_t index, const PassPlan& plan,
                                                                 size_t mini_batches) {
  absl::StatusOr<PassLimits> limits = PassLimitsOf(options);
  if (!limits.ok()) return limits.status();
  std::unique_ptr<PlannedPass> planned(new PlannedPass(manifest, options));
  planned->planned_.lengths.assign(manifest.lengths.size(), 0);
  for (size_t i = 0; i < plan.sequence_index.size(); ++i) {
    planned->planned_.lengths[plan.sequence_index[i]] = plan.sequence_lengths[i];
  }
  planned->alignments_.emplace(planned->planned_.lengths);
  if (!manifest.shared_prefixes.empty()) {
    planned->prefixes_ =
        SharedPrefixes(planned->manifest_, options.overlong == OverlongPolicy::kTruncate
                                               ? limits->longest.length
                                               : std::numeric_limits<uint32_t>::max());
  }
  absl::StatusOr<Pass> pass =
      Pass::Create(planned->manifest_, planned->options_, index, std::move(limits->sizes[index]),
                   planned->planned_, *planned->alignments_, planned->groups_, mini_batches, {},
                   planned->prefixes_, planned->loads_);
  if (!pass.ok()) return pass.status();
  planned->pass_ = *std::move(pass);
  return planned;
}

ProvenTime PlannedPass::LeastTime(const PlannedMiniBatches& mini_batches) const {
  const Pass& pass = *pass_;
  const Allowance allowance(kTicks, {});
  ProvenTime proven;
  for (size_t k = 0; k < mini_batches.sequences.size(); ++k) {
    const std::span<const SequenceIndex> sequences = mini_batches.sequences[k];
    if (sequences.empty()) continue;
    Placement possible;
    possible.slots = mini_batches.slots[k];
    const MiniBatchBounds bounds = BoundsOf(pass, sequences, possible, allowance);
    proven.time += pass.cost().ToUnits(bounds.step_time);
    proven.slots += static_cast<double>(bounds.slots);
  }
  return proven;
}

PlannedPass::Longest PlannedPass::LongestOf(std::span<const SequenceIndex> sequences) const {
  const Pass& pass = *pass_;
  const double fixed = pass.cost().ToUnits(pass.cost().OfMicrobatch());
  Longest longest;
  for (const SequenceIndex sequence : sequences) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t size = 0; size < pass.sizes().size(); ++size) {
      const uint32_t length = pass.aligned(size)[sequence.value()];
      if (pass.sizes_differ() && length > pass.sizes()[size].capacity) continue;
      least = std::min(least, pass.cost(size).ToUnits(pass.cost(size).OfSequence(length) +
                                                      pass.loads().InMicrobatch(sequence)));
    }
    if (least + fixed <= longest.time || least == std::numeric_limits<double>::infinity()) continue;
    longest = {.sequence = sequence, .time = least + fixed};
  }
  return longest;
}

}  // namespace batchplan::explain
