#include "server/planner/context/context_pass.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/planner/cancellation.h"

namespace batchplan {
namespace {

// Ranks times slots that are walked through, again and again, where slots may be empty.
constexpr uint64_t kMaxRankSlots = uint64_t{1} << 24;

// What any of the planned sequences costs by itself, in a micro-batch of its own, on one rank of
// groups of `ranks` ranks: the most of all, for each of its tokens, and without the exchange.
double MostOfAToken(const CostModel& model, uint32_t ranks, uint32_t shortest, uint32_t longest) {
  return (model.per_token + model.per_token_squared * longest) / ranks +
         (model.per_sequence + model.per_microbatch) / shortest;
}

}  // namespace

std::vector<GroupLimits> WithoutDearSizes(const PlanOptions& options, size_t index,
                                          std::span<const GroupLimits> limits,
                                          const PlannedLengths& planned) {
  std::vector<GroupLimits> all(limits.begin(), limits.end());
  const CostModel& model = options.cost_model;
  if (model.exchange.empty() || limits.size() == 1 ||
      options.passes[index].sharding == Sharding::kMegatronDynamicCp) {
    return all;
  }
  uint32_t shortest = std::numeric_limits<uint32_t>::max();
  uint32_t longest = 0;
  for (const uint32_t length : planned.lengths) {
    if (length > 0) shortest = std::min(shortest, length);
    longest = std::max(longest, length);
  }
  if (longest == 0) return all;
  const double most = MostOfAToken(model, limits.front().ranks, shortest, longest);
  std::vector<double> exchanges;
  for (const GroupLimits& size : limits) exchanges.push_back(ExchangePerToken(model, size.ranks));
  std::sort(exchanges.begin(), exchanges.end());
  for (const double exchange : exchanges) {
    // Of sizes that exchange no more than this, the largest that holds every sequence.
    const auto holder = std::find_if(limits.rbegin(), limits.rend(), [&](const GroupLimits& size) {
      return ExchangePerToken(model, size.ranks) <= exchange &&
             AlignUp(longest, size.multiple) <= size.capacity;
    });
    if (holder == limits.rend()) continue;
    const double enough = holder->ranks;
    std::vector<GroupLimits> left;
    for (const GroupLimits& size : limits) {
      const double all_ranks = std::min<double>(size.ranks, enough) / enough;
      if (left.empty() ||
          ExchangePerToken(model, size.ranks) * all_ranks <= kDearExchange * (most + exchange)) {
        left.push_back(size);
      }
    }
    return left;
  }
  return all;
}

std::vector<GroupLimits> UsefulSizes(const PlanOptions& options, size_t index,
                                     std::span<const GroupLimits> limits,
                                     const PlannedLengths& planned) {
  std::vector<GroupLimits> useful = WithoutDearSizes(options, index, limits, planned);
  const size_t sequences = std::max<size_t>(planned.lengths.size(), 1);
  const uint32_t longest = *std::max_element(planned.lengths.begin(), planned.lengths.end());
  const auto holder = std::find_if(useful.begin(), useful.end(), [&](const GroupLimits& size) {
    return AlignUp(longest, size.multiple) <= size.capacity;
  });
  const size_t needed = std::min<size_t>(holder - useful.begin() + 1, useful.size());
  const size_t kept = std::max<size_t>(needed, kMostItemSizes / sequences);
  if (kept < useful.size())
    useful.erase(useful.begin() + static_cast<ptrdiff_t>(kept), useful.end());
  return useful;
}

absl::StatusOr<ContextPass> ContextPass::Create(const Manifest& manifest,
                                                const PlanOptions& options, size_t index,
                                                std::vector<GroupLimits> limits,
                                                const PlannedLengths& planned, const Groups& groups,
                                                size_t mini_batches, const Allowance& allowance) {
  ContextPass pass(manifest, options, index, std::move(limits), groups);
  std::vector<SharedSequences> sizes;
  for (const GroupLimits& size : pass.limits_) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    pass.aligned_.push_back(AlignAll(planned.lengths, size.multiple));
    sizes.push_back({.ranks = size.ranks, .aligned_lengths = *pass.aligned_.back()});
  }
  const uint64_t sequences = planned.lengths.size();
  const uint64_t microbatches =
      sequences + (options.allow_empty_microbatches ? kMaxEmptyMicrobatches : 0);
  const size_t own_mini_batches = pass.options_->ignore_mini_batches ? 1 : mini_batches;
  absl::StatusOr<std::vector<CostFunction>> costs = CostFunction::CreateForSizes(
      options.cost_model, sizes, pass.pool_, microbatches, 0,
      MostWaiting(options, *pass.options_, sequences, own_mini_batches));
  if (!costs.ok()) return costs.status();
  pass.costs_ = *std::move(costs);
  CostModel without_exchange = options.cost_model;
  without_exchange.exchange.clear();
  const absl::StatusOr<CostFunction> computation =
      CostFunction::Create(without_exchange, sizes.front(), microbatches, 0);
  if (!computation.ok()) return computation.status();
  pass.computation_ = {*computation};
  if (options.topology.pipeline_parallel > 1) {
    Pipeline pipeline = PipelineOf(options.topology, options.pipeline, pass.options_->forward_only);
    pipeline.transfer = pass.costs_.front().FromUnits(pipeline.transfer);
    pass.pipeline_ = std::make_shared<const Pipeline>(std::move(pipeline));
  }
  if (absl::Status status = pass.CheckGroupsFit(manifest); !status.ok()) return status;
  uint64_t empty = 0;
  if (options.allow_empty_microbatches) {
    if (absl::Status status = pass.CheckEmptySlots(own_mini_batches); !status.ok()) {
      return status;
    }
    empty = pass.counts_.RoundUp(1) * own_mini_batches;
  }
  absl::Status status = CheckPipelineWorks(options.topology, sequences, empty, pass.where_);
  if (!status.ok()) return status;
  return pass;
}

ContextPass::ContextPass(const Manifest& manifest, const PlanOptions& options, size_t index,
                         std::vector<GroupLimits> limits, const Groups& groups)
    : options_(&options.passes[index]),
      topology_(&options.topology),
      where_(absl::StrCat("passes[", index, "]")),
      pool_(static_cast<uint32_t>(PoolOf(options.topology))),
      limits_(std::move(limits)),
      counts_(CountRuleOf(options.topology, options.pipeline, *options_)),
      synchronization_(options.synchronization),
      effort_(options.effort),
      allow_empty_(options.allow_empty_microbatches),
      groups_keep_microbatch_(!manifest.group_ids.empty() &&
                              options.mini_batches.groups == GroupPolicy::kSameMicrobatch),
      groups_(&groups) {}

size_t ContextPass::SizeOf(uint32_t ranks) const {
  return std::find_if(limits_.begin(), limits_.end(),
                      [&](const GroupLimits& size) { return size.ranks == ranks; }) -
         limits_.begin();
}

uint64_t ContextPass::fewest_groups() const {
  // The binary digits of what the largest size leaves.
  const uint32_t largest = ContextSizes(*topology_).back();
  return pool_ / largest + std::popcount(pool_ % largest);
}

MicrobatchOrder ContextPass::order() const {
  return options_->order == MicrobatchOrder::kPipeline && pipeline_ == nullptr
             ? MicrobatchOrder::kAsAssigned
             : options_->order;
}

absl::Status ContextPass::CheckGroupsFit(const Manifest& manifest) const {
  if (!groups_keep_microbatch_) return absl::OkStatus();
  std::vector<uint32_t> counts(groups_->size(), 0);
  // By group of sequences, whether some size holds it.
  std::vector<bool> held(groups_->size(), false);
  std::vector<uint64_t> tokens;
  for (size_t size = 0; size < limits_.size(); ++size) {
    tokens.assign(groups_->size(), 0);
    for (uint32_t i = 0; i < aligned_[size]->size(); ++i) {
      const size_t group = (*groups_)[SequenceIndex(i)];
      const uint32_t length = (*aligned_[size])[i];
      tokens[group] += length;
      if (size == 0 && length > 0) ++counts[group];
    }
    for (size_t group = 0; group < held.size(); ++group) {
      held[group] = held[group] || tokens[group] <= limits_[size].capacity;
    }
  }
  const GroupLimits& largest = limits_.back();
  for (uint32_t i = 0; i < manifest.group_ids.size(); ++i) {
    const size_t group = (*groups_)[SequenceIndex(i)];
    if (!held[group]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group ", manifest.group_ids[i],
          " takes ", tokens[group], " tokens, and with ", where_, ".max_tokens_per_microbatch ",
          options_->max_tokens_per_microbatch, " ", largest.ranks,
          " ranks, the most of topology.dynamic_context, hold ", largest.capacity));
    }
    if (options_->max_sequences_per_microbatch > 0 &&
        counts[group] > options_->max_sequences_per_microbatch) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group ", manifest.group_ids[i],
          " has ", counts[group], " sequences, and ", where_, ".max_sequences_per_microbatch is ",
          options_->max_sequences_per_microbatch));
    }
  }
  return absl::OkStatus();
}

absl::Status ContextPass::CheckEmptySlots(size_t mini_batches) const {
  const uint64_t least = counts_.RoundUp(1);
  if (least > kMaxEmptyMicrobatches / fewest_groups() / mini_batches) {
    return absl::InvalidArgumentError(
        absl::StrCat(where_, ": min_microbatches ", counts_.minimum, " and a multiple of ",
                     counts_.multiple, " ask for ", least, " slots of at least ", fewest_groups(),
                     " micro-batches each, groups of ", ContextSizes(*topology_).back(),
                     " ranks and fewer on the ", pool_, " ranks of topology.dynamic_context, in ",
                     mini_batches, " mini-batches, more than ", kMaxEmptyMicrobatches,
                     " in all, the limit where allow_empty_microbatches is set"));
  }
  if (least <= kMaxRankSlots / pool_ / mini_batches) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      where_, ": min_microbatches ", counts_.minimum, " and a multiple of ", counts_.multiple,
      " ask for ", least, " slots in ", mini_batches, " mini-batches, times the ", pool_,
      " ranks of topology.dynamic_context more than ", kMaxRankSlots,
      ", the limit where allow_empty_microbatches is set"));
}

SequenceLists ContextPass::ItemsOf(std::span<const SequenceIndex> sequences) const {
  return groups_keep_microbatch_ ? groups_->Together(sequences) : SequenceLists::Singles(sequences);
}

absl::StatusOr<ContextProblem> ContextPass::ProblemOf(const SequenceLists& items,
                                                      const Allowance& allowance) const {
  constexpr uint64_t kTooMany = std::numeric_limits<uint32_t>::max();
  ContextProblem problem;
  problem.pool = pool_;
  problem.max_sequences = options_->max_sequences_per_microbatch;
  problem.per_microbatch = costs_.front().OfMicrobatch();
  problem.slots = counts_;
  problem.allow_empty = allow_empty_;
  problem.synchronization = synchronization_;
  problem.effort = effort_;
  problem.pipeline = pipeline_.get();
  for (size_t s = 0; s < limits_.size(); ++s) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    ContextSize& size = problem.sizes.emplace_back();
    size.ranks = limits_[s].ranks;
    size.capacity = limits_[s].capacity;
    size.tokens.reserve(items.size());
    size.costs.reserve(items.size());
    for (size_t item = 0; item < items.size(); ++item) {
      uint64_t tokens = 0;
      Cost cost = 0;
      for (const SequenceIndex sequence : items[item]) {
        const uint32_t length = (*aligned_[s])[sequence.value()];
        tokens += length;
        cost += costs_[s].OfSequence(length);
      }
      size.tokens.push_back(static_cast<uint32_t>(std::min(tokens, kTooMany)));
      size.costs.push_back(cost);
    }
  }
  if (groups_keep_microbatch_) {
    problem.counts.reserve(items.size());
    for (size_t item = 0; item < items.size(); ++item) {
      problem.counts.push_back(static_cast<uint32_t>(items[item].size()));
    }
  }
  return problem;
}

ContextPlacement PlacementOf(const ContextPass& pass, const SequenceLists& items,
                             const ContextSlots& slots) {
  ContextPlacement placement;
  placement.reserve(slots.size());
  for (const std::vector<ContextGroup>& slot : slots) {
    std::vector<PlacedGroup>& groups = placement.emplace_back();
    groups.reserve(slot.size());
    for (const ContextGroup& group : slot) {
      PlacedGroup& placed = groups.emplace_back();
      placed.ranks = pass.limits()[group.size].ranks;
      for (const uint32_t item : group.items) {
        placed.sequences.insert(placed.sequences.end(), items[item].begin(), items[item].end());
      }
    }
  }
  return placement;
}

}  // namespace batchplan
