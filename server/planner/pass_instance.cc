#include "server/planner/pass_instance.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// The empty micro-batches whose costs have room beside those of others: no fewer than there may be.
// Costs are rounded by it, and plans follow from that, so that it stays as it is.
constexpr uint64_t kCostedEmptyMicrobatches = uint64_t{1} << 24;
static_assert(kMaxEmptyMicrobatches <= kCostedEmptyMicrobatches);

absl::StatusOr<CostFunction> MakeCostFunction(const PlanOptions& options, const PassOptions& pass,
                                              const std::vector<uint32_t>& aligned,
                                              uint32_t longest, size_t mini_batches) {
  const uint32_t sharing = options.topology.context_parallel;
  const uint64_t sequences = aligned.size();
  const uint64_t microbatches =
      options.allow_empty_microbatches ? sequences + kCostedEmptyMicrobatches : sequences;
  const double waiting = MostWaiting(options, pass, sequences, mini_batches);
  if (pass.layout == Layout::kPadded) {
    // A sequence costs what its width does, at most that of the longest.
    const std::vector<uint32_t> widest(sequences, longest);
    return CostFunction::Create(options.cost_model, {.ranks = sharing, .aligned_lengths = widest},
                                microbatches, 0, waiting);
  }
  const uint64_t tail =
      pass.rows == RowPadding::kNone ? 0 : pass.max_tokens_per_microbatch * sequences;
  return CostFunction::Create(options.cost_model, {.ranks = sharing, .aligned_lengths = aligned},
                              microbatches, tail, waiting);
}

absl::Status CheckEmptyMicrobatches(const CountRule& counts, uint64_t ranks, uint64_t mini_batches,
                                    absl::string_view where) {
  const uint64_t least = counts.RoundUp(1);
  if (least <= kMaxEmptyMicrobatches / ranks / mini_batches) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": min_microbatches ", counts.minimum, " and a multiple of ", counts.multiple,
      " ask for ", least, " micro-batches on each rank of data_parallel ", ranks, " in ",
      mini_batches, " mini-batches, more than ", kMaxEmptyMicrobatches,
      " in all, the limit where allow_empty_microbatches is set"));
}

// The most aligned tokens that a row may hold: the token budget, or the widest bucket.
uint32_t RowCapacity(const PassOptions& pass, uint32_t length_multiple) {
  return pass.rows == RowPadding::kBuckets
             ? pass.buckets.back()
             : AlignDown(pass.max_tokens_per_microbatch, length_multiple);
}

// That every bucket is a multiple of the length multiple, and one holds the longest sequence
// within the token budget.
absl::Status CheckBucketsFit(const PassOptions& pass, uint32_t length_multiple,
                             const std::vector<uint32_t>& aligned, absl::string_view where) {
  if (pass.rows != RowPadding::kBuckets) return absl::OkStatus();
  for (size_t i = 0; i < pass.buckets.size(); ++i) {
    if (pass.buckets[i] % length_multiple != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ".packed.buckets[", i, "] is ", pass.buckets[i],
                       ", not a multiple of the length multiple ", length_multiple));
    }
  }
  uint32_t longest = 0;
  for (const uint32_t length : aligned) {
    if (length <= pass.max_tokens_per_microbatch) longest = std::max(longest, length);
  }
  if (longest > pass.buckets.back()) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ".packed.buckets ends at ", pass.buckets.back(), ", but the longest sequence takes ",
        longest, " tokens; add a bucket that holds it"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t CountRule::RoundUp(uint64_t needed) const {
  const uint64_t count = std::max(needed, minimum);
  return (count + multiple - 1) / multiple * multiple;
}

uint64_t CountRule::LeastThatNeeds(uint64_t count) const {
  return count < minimum + multiple ? 0 : count - multiple + 1;
}

uint64_t CountRule::RoundDown(uint64_t available) const {
  const uint64_t count = available / multiple * multiple;
  return count >= minimum ? count : 0;
}

CountRule CountRuleOf(const Topology& topology, const PipelineOptions& pipeline,
                      const PassOptions& pass) {
  uint64_t group = 1;
  if (topology.virtual_pipeline > 1) {
    group = pipeline.group_size > 0 ? pipeline.group_size : topology.pipeline_parallel;
  }
  return {.minimum = pass.min_microbatches,
          .multiple = std::lcm(uint64_t{pass.microbatch_count_multiple}, group)};
}

double MostWaiting(const PlanOptions& options, const PassOptions& pass, uint64_t sequences,
                   uint64_t mini_batches) {
  const Topology& topology = options.topology;
  if (topology.pipeline_parallel == 1) return 0;
  uint64_t microbatches = sequences;
  if (options.allow_empty_microbatches) {
    const uint64_t least = CountRuleOf(topology, options.pipeline, pass).RoundUp(1);
    microbatches += std::min(kMaxEmptyMicrobatches, least * mini_batches);
  }
  return options.pipeline.transfer * 2 * topology.pipeline_parallel * topology.virtual_pipeline *
         static_cast<double>(microbatches);
}

absl::Status CheckPipelineWorks(const Topology& topology, uint64_t sequences, uint64_t empty,
                                absl::string_view where) {
  const uint64_t stages = uint64_t{topology.pipeline_parallel} * topology.virtual_pipeline;
  if (topology.pipeline_parallel == 1 || sequences + empty <= kMaxPipelineWorks / stages) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": ", sequences, " sequences", empty > 0 ? " and " : "",
      empty > 0 ? absl::StrCat(empty, " empty micro-batches") : "",
      " times topology.pipeline_parallel ", topology.pipeline_parallel, " and virtual_pipeline ",
      topology.virtual_pipeline, " are more than ", kMaxPipelineWorks,
      ", the limit of what is simulated; plan fewer sequences at a time"));
}

absl::Status CheckTotalPipelineWorks(const Topology& topology, uint64_t microbatches,
                                     size_t passes) {
  const uint64_t stages = uint64_t{topology.pipeline_parallel} * topology.virtual_pipeline;
  if (microbatches <= kMaxPipelineWorks / stages) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the plan needs ", microbatches, " micro-batches or more in ", passes,
      " passes: times topology.pipeline_parallel ", topology.pipeline_parallel,
      " and virtual_pipeline ", topology.virtual_pipeline, " that is more than ", kMaxPipelineWorks,
      ", the limit of what is simulated; plan fewer sequences or passes at a time"));
}

absl::StatusOr<PassInstance> PassInstance::Create(const Manifest& manifest,
                                                  const PlanOptions& options, size_t index,
                                                  uint32_t length_multiple,
                                                  const AlignedLengths& aligned,
                                                  const PlannedLengths& planned,
                                                  const Groups& groups, size_t mini_batches) {
  const PassOptions& pass = options.passes[index];
  const uint32_t longest = *std::max_element(aligned->begin(), aligned->end());
  const size_t own_mini_batches = pass.ignore_mini_batches ? 1 : mini_batches;
  const absl::StatusOr<CostFunction> cost =
      MakeCostFunction(options, pass, *aligned, longest, own_mini_batches);
  if (!cost.ok()) return cost.status();

  PassInstance instance(manifest, options, index, length_multiple, planned, groups, *cost, aligned);
  if (absl::Status status = CheckBucketsFit(pass, length_multiple, *aligned, instance.where_);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = instance.CheckGroupsFit(manifest); !status.ok()) return status;
  instance.mini_batches_ = own_mini_batches;
  uint64_t empty = 0;
  if (options.allow_empty_microbatches) {
    absl::Status status = CheckEmptyMicrobatches(instance.counts_, instance.ranks_,
                                                 instance.mini_batches_, instance.where_);
    if (!status.ok()) return status;
    empty = instance.counts_.RoundUp(1) * instance.ranks_ * instance.mini_batches_;
  }
  if (absl::Status status =
          CheckPipelineWorks(options.topology, aligned->size(), empty, instance.where_);
      !status.ok()) {
    return status;
  }
  return instance;
}

PassInstance::PassInstance(const Manifest& manifest, const PlanOptions& options, size_t index,
                           uint32_t length_multiple, const PlannedLengths& planned,
                           const Groups& groups, const CostFunction& cost, AlignedLengths aligned)
    : options_(&options.passes[index]),
      where_(absl::StrCat("passes[", index, "]")),
      length_multiple_(length_multiple),
      ranks_(options.topology.data_parallel),
      allow_empty_(options.allow_empty_microbatches),
      synchronization_(options.synchronization),
      effort_(options.effort),
      groups_keep_microbatch_(!groups.empty() &&
                              options.mini_batches.groups == GroupPolicy::kSameMicrobatch),
      groups_keep_rank_(!groups.empty() && (groups_keep_microbatch_ ||
                                            options.mini_batches.groups == GroupPolicy::kSameRank)),
      groups_(&groups),
      given_ranks_(manifest.ranks),
      counts_(CountRuleOf(options.topology, options.pipeline, *options_)),
      cost_(cost),
      planned_(planned.lengths),
      aligned_(std::move(aligned)) {
  if (options.topology.pipeline_parallel > 1) {
    Pipeline pipeline = PipelineOf(options.topology, options.pipeline, options_->forward_only);
    pipeline.transfer = cost_.FromUnits(pipeline.transfer);
    pipeline_ = std::make_shared<const Pipeline>(std::move(pipeline));
  }
  bin_limits_.capacity = RowCapacity(*options_, length_multiple_);
  padded_limits_.tokens = options_->max_tokens_per_microbatch;
  if (options_->max_sequences_per_microbatch > 0) {
    bin_limits_.max_sequences = options_->max_sequences_per_microbatch;
    padded_limits_.sequences = options_->max_sequences_per_microbatch;
  }
  // Of a padded micro-batch more than half, so that nothing fits beside it.
  const uint32_t limit = AlignDown(options_->max_tokens_per_microbatch, length_multiple_);
  longest_beside_ = options_->layout == Layout::kPacked ? bin_limits_.capacity : limit;
  some_run_alone_ = std::any_of(aligned_->begin(), aligned_->end(),
                                [&](uint32_t length) { return length > limit; });
  same_widths_ = !some_run_alone_ && SharesWidths(*options_, options.passes[0].sharding);
}

PassInstance PassInstance::With(Effort effort) const {
  PassInstance other = *this;
  other.effort_ = effort;
  return other;
}

PassInstance PassInstance::With(const PassOptions& method) const {
  PassInstance other = *this;
  other.options_ = &method;
  other.same_widths_ = !some_run_alone_ && SharesWidths(method, method.sharding);
  return other;
}

absl::Status PassInstance::CheckGroupsFit(const Manifest& manifest) const {
  if (!groups_keep_microbatch_) return absl::OkStatus();
  struct Group {
    uint64_t count = 0;
    uint64_t tokens = 0;
    uint32_t width = 0;
  };
  std::vector<Group> groups(groups_->size());
  for (uint32_t i = 0; i < aligned_->size(); ++i) {
    if ((*aligned_)[i] == 0) continue;
    Group& group = groups[(*groups_)[SequenceIndex(i)]];
    ++group.count;
    group.tokens += (*aligned_)[i];
    group.width = std::max(group.width, (*aligned_)[i]);
    const bool padded = options_->layout == Layout::kPadded;
    const uint64_t tokens = padded ? group.count * group.width : group.tokens;
    const uint64_t most_tokens = padded ? padded_limits_.tokens : bin_limits_.capacity;
    if (tokens > most_tokens) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group ", manifest.group_ids[i],
          " takes ", tokens, " tokens or more, and ", where_, ".max_tokens_per_microbatch ",
          options_->max_tokens_per_microbatch, " holds ", most_tokens));
    }
    if (group.count > bin_limits_.max_sequences) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group ", manifest.group_ids[i],
          " has ", group.count, " sequences or more, and ", where_,
          ".max_sequences_per_microbatch is ", options_->max_sequences_per_microbatch));
    }
  }
  return absl::OkStatus();
}

bool PassInstance::may_deal_bins() const {
  return options_->layout == Layout::kPacked && !options_->equal_sequence_counts &&
         (!groups_keep_rank_ || groups_keep_microbatch_);
}

SequenceLists PassInstance::UnitLists(std::span<const SequenceIndex> sequences) const {
  return groups_keep_rank_ ? groups_->Together(sequences) : SequenceLists::Singles(sequences);
}

Units PassInstance::UnitsOf(std::span<const SequenceIndex> sequences) const {
  const bool tokens = options_->balance_on == BalanceOn::kTokens;
  Units units{.sequences = UnitLists(sequences), .counts = {}, .loads = {}};
  const SequenceLists& lists = units.sequences;
  units.counts.reserve(lists.size());
  units.loads.reserve(lists.size());
  for (size_t unit = 0; unit < lists.size(); ++unit) {
    uint64_t load = 0;
    for (SequenceIndex sequence : lists[unit]) {
      const uint32_t aligned = (*aligned_)[sequence.value()];
      load += tokens ? aligned : cost_.OfSequence(aligned);
    }
    units.counts.push_back(static_cast<uint32_t>(lists[unit].size()));
    units.loads.push_back(load);
  }
  return units;
}

Items PassInstance::ItemsOf(std::span<const SequenceIndex> sequences) const {
  return ItemsFrom(groups_keep_microbatch_ ? groups_->Together(sequences)
                                           : SequenceLists::Singles(sequences));
}

Items PassInstance::ItemsFrom(SequenceLists lists) const {
  Items items;
  items.lengths.reserve(lists.size());
  items.costs.reserve(lists.size());
  if (some_run_alone_) items.whole_lengths.reserve(lists.size());
  const bool padded = options_->layout == Layout::kPadded;
  const auto join = [&](uint32_t length, uint32_t other) {
    return padded ? std::max(length, other) : length + other;
  };
  for (size_t item = 0; item < lists.size(); ++item) {
    uint32_t length = 0;
    uint32_t whole = 0;
    Cost cost = 0;
    for (SequenceIndex sequence : lists[item]) {
      const uint32_t aligned = (*aligned_)[sequence.value()];
      length = join(length, RoomOf(sequence));
      whole = join(whole, aligned);
      cost += cost_.OfSequence(aligned);
    }
    items.lengths.push_back(length);
    if (some_run_alone_) items.whole_lengths.push_back(whole);
    items.costs.push_back(cost);
  }
  if (groups_keep_microbatch_) {
    items.counts.reserve(lists.size());
    for (size_t item = 0; item < lists.size(); ++item) {
      items.counts.push_back(static_cast<uint32_t>(lists[item].size()));
    }
  }
  items.sequences = std::move(lists);
  return items;
}

Objective PassInstance::ObjectiveOf(const Items& items) const {
  Objective objective;
  if (options_->balance_on == BalanceOn::kTokens && pipeline_ == nullptr) {
    objective.loads.assign(items.widths().begin(), items.widths().end());
    return objective;
  }
  objective.loads = items.costs;
  objective.per_microbatch = cost_.OfMicrobatch();
  objective.is_cost = true;
  if (options_->rows == RowPadding::kLongest || options_->rows == RowPadding::kCapacity) {
    objective.is_cost = false;
    objective.per_microbatch += cost_.OfTail(bin_limits_.capacity);
    for (uint32_t i = 0; i < items.size(); ++i) {
      const Cost tail = cost_.OfTail(items.lengths[i]);
      objective.loads[i] -= tail < items.costs[i] ? tail : items.costs[i];
    }
  }
  return objective;
}

std::vector<uint32_t> PassInstance::RowWidths(std::vector<uint32_t> widths) const {
  if (options_->layout == Layout::kPadded || options_->rows == RowPadding::kNone) return widths;
  const uint32_t longest = *std::max_element(widths.begin(), widths.end());
  for (uint32_t& row : widths) {
    if (row == 0 || row > bin_limits_.capacity) continue;
    switch (options_->rows) {
      case RowPadding::kNone:
        break;
      case RowPadding::kLongest:
        row = longest;
        break;
      case RowPadding::kCapacity:
        row = bin_limits_.capacity;
        break;
      case RowPadding::kBuckets:
        row = *std::lower_bound(options_->buckets.begin(), options_->buckets.end(), row);
        break;
    }
  }
  return widths;
}

Cost PassInstance::CostOf(std::span<const SequenceIndex> microbatch, uint32_t width) const {
  if (options_->layout == Layout::kPadded) {
    return cost_.OfSequence(width) * microbatch.size() + cost_.OfMicrobatch();
  }
  Cost cost = cost_.OfMicrobatch();
  uint32_t tokens = 0;
  for (SequenceIndex sequence : microbatch) {
    tokens += (*aligned_)[sequence.value()];
    cost += cost_.OfSequence((*aligned_)[sequence.value()]);
  }
  return width > tokens ? cost + cost_.OfTail(width - tokens) : cost;
}

std::vector<uint64_t> PassInstance::TrueTokensOf(const SequenceLists& lists) const {
  std::vector<uint64_t> tokens(lists.size(), 0);
  for (size_t list = 0; list < lists.size(); ++list) {
    for (SequenceIndex sequence : lists[list]) tokens[list] += planned_[sequence.value()];
  }
  return tokens;
}

}  // namespace batchplan
