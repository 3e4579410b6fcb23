#include "server/planner/pass/pass.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/planner/pass/bundles.h"
#include "server/planner/pass/pass_checks.h"
#include "server/planner/request/cancellation.h"
#include "server/planner/request/count_multiples.h"

namespace batchplan {
namespace {

// The empty micro-batches that the scale of costs has room for: at least as many as allowed. The
// rounding of costs depends on this number, and plans on that, so it must not change.
constexpr uint64_t kCostedEmptyMicrobatches = uint64_t{1} << 24;
static_assert(kMaxEmptyMicrobatches <= kCostedEmptyMicrobatches);

// For groups that all have `sharing` ranks, and whose rows are rounded up to `multiple`.
absl::StatusOr<CostFunction> MakeCostFunction(const PlanOptions& options, const PassOptions& pass,
                                              uint32_t sharing, std::span<const uint32_t> aligned,
                                              uint32_t multiple, size_t mini_batches,
                                              double loads) {
  const uint64_t sequences = aligned.size();
  const uint64_t microbatches =
      options.allow_empty_microbatches ? sequences + kCostedEmptyMicrobatches : sequences;
  const double waiting = MostWaiting(options, pass, sequences, mini_batches);
  if (pass.layout == Layout::kPadded) {
    // A sequence costs as much as its width, which is at most the longest length.
    const std::vector<uint32_t> widest(sequences,
                                       *std::max_element(aligned.begin(), aligned.end()));
    return CostFunction::Create(options.cost_model, {.ranks = sharing, .aligned_lengths = widest},
                                microbatches, 0, waiting, loads);
  }
  // Rows of shared prefixes, whose sequences are not aligned, are rounded up.
  const uint64_t tail = pass.rows == RowPadding::kNone && multiple == 1
                            ? 0
                            : pass.max_tokens_per_microbatch * sequences;
  return CostFunction::Create(options.cost_model, {.ranks = sharing, .aligned_lengths = aligned},
                              microbatches, tail, waiting, loads);
}

// An upper bound on the tail padding of rows, over all groups that `sequences` sequences can fill,
// in tokens of the smallest size: they cost each rank at least as much.
uint64_t MostTail(const PassOptions& pass, std::span<const GroupLimits> sizes, uint64_t sequences) {
  if (pass.rows == RowPadding::kNone) return 0;
  uint64_t most = 0;
  for (const GroupLimits& size : sizes) {
    const uint64_t shared = uint64_t{size.capacity} * sizes.front().ranks;
    most = std::max(most, (shared + size.ranks - 1) / size.ranks);
  }
  return most * sequences;
}

}  // namespace

absl::StatusOr<Pass> Pass::Create(const Manifest& manifest, const PlanOptions& options,
                                  size_t index, std::vector<GroupLimits> sizes,
                                  const PlannedLengths& planned, Alignments& alignments,
                                  const Groups& groups, size_t mini_batches,
                                  const Allowance& allowance, const SharedPrefixes& prefixes,
                                  const Loads& loads) {
  Pass pass(manifest, options, index, sizes, planned, groups, prefixes, loads, mini_batches);
  if (pass.prefixes_ != nullptr) {
    const absl::StatusOr<Pass> whole =
        Create(manifest, options, index, std::move(sizes), planned, alignments, groups,
               mini_batches, allowance, NothingShared(), loads);
    if (whole.ok()) {
      pass.plain_ = whole->plain_ != nullptr ? whole->plain_ : std::make_shared<const Pass>(*whole);
    }
  }
  for (const GroupLimits& size : pass.sizes_) {
    if (absl::Status status = CheckStop(allowance); !status.ok()) return status;
    pass.aligned_.push_back(alignments.To(pass.prefixes_ == nullptr ? size.multiple : 1));
  }
  if (absl::Status status = pass.SetCosts(options); !status.ok()) return status;
  pass.SetRows(options.passes[0].sharding);
  if (absl::Status status = pass.Check(); !status.ok()) return status;
  if (pass.is_joint() && pass.prefixes_ == nullptr) {
    pass.plain_ = std::make_shared<const Pass>(pass.Plain(/*with_phases=*/true));
    if (!std::ranges::all_of(pass.loads_.phases(), &LoadPhase::dealt)) {
      pass.without_phases_ = std::make_shared<const Pass>(pass.Plain(/*with_phases=*/false));
    }
    if (pass.row_multiple() > 1) {
      pass.without_multiple_ = std::make_shared<const Pass>(pass.plain_->WithoutMultiples());
    }
  }
  return pass;
}

absl::Status Pass::Check() const {
  if (absl::Status status = CheckBucketsFit(*this); !status.ok()) return status;
  if (absl::Status status = CheckGroupsFit(*manifest_, *this); !status.ok()) return status;
  if (absl::Status status = CheckKindsOfGroups(*manifest_, *this); !status.ok()) return status;
  const absl::StatusOr<uint64_t> empty = EmptyMicrobatchesAskedFor(*this);
  if (!empty.ok()) return empty.status();
  return CheckPipelineWorks(*topology_, planned_.size(), *empty, where_);
}

Pass::Pass(const Manifest& manifest, const PlanOptions& options, size_t index,
           std::vector<GroupLimits> sizes, const PlannedLengths& planned, const Groups& groups,
           const SharedPrefixes& prefixes, const Loads& loads, size_t mini_batches)
    : manifest_(&manifest),
      request_(&options),
      options_(std::make_shared<const PassOptions>(options.passes[index])),
      topology_(std::make_shared<const Topology>(options.topology)),
      where_(absl::StrCat("passes[", index, "]")),
      sizes_(std::move(sizes)),
      mini_batches_(options_->ignore_mini_batches ? 1 : mini_batches),
      allow_empty_(options.allow_empty_microbatches),
      synchronization_(options.synchronization),
      effort_(options.effort),
      groups_keep_microbatch_(!groups.empty() &&
                              options.mini_batches.groups == GroupPolicy::kSameMicrobatch),
      groups_keep_rank_(!groups.empty() && (groups_keep_microbatch_ ||
                                            options.mini_batches.groups == GroupPolicy::kSameRank)),
      groups_(&groups),
      prefixes_(options_->ignore_shared_prefixes || prefixes.empty() ? nullptr : &prefixes),
      loads_(options, *options_, loads, planned.lengths.size()),
      rank_multiple_(RankMultipleOf(options)),
      counts_(CountRuleOf(options.topology, options.pipeline, *options_)),
      planned_(planned.lengths),
      keeps_kinds_(options_->kinds_per_slot != KindsPerSlot::kAny &&
                   std::ranges::any_of(manifest.kinds, [](uint32_t kind) { return kind != 0; })) {}

Pass Pass::Plain(bool with_phases) const {
  Pass plain = *this;
  plain.is_plain_ = true;
  plain.loads_ = loads_.Plain(with_phases, cost());
  return plain;
}

absl::Status Pass::SetCosts(const PlanOptions& options) {
  if (!sizes_differ()) {
    const absl::StatusOr<CostFunction> cost = MakeCostFunction(
        options, *options_, topology_->context_parallel, aligned(),
        prefixes_ == nullptr ? 1 : length_multiple(), mini_batches_, loads_.Units());
    if (!cost.ok()) return cost.status();
    costs_ = {*cost};
    loads_.SetCosts(*cost);
  } else {
    std::vector<SharedSequences> shared;
    for (size_t size = 0; size < sizes_.size(); ++size) {
      shared.push_back({.ranks = sizes_[size].ranks, .aligned_lengths = aligned(size)});
    }
    const uint64_t sequences = planned_.size();
    const uint64_t microbatches = sequences + (allow_empty_ ? kMaxEmptyMicrobatches : 0);
    absl::StatusOr<std::vector<CostFunction>> costs = CostFunction::CreateForSizes(
        options.cost_model, shared, pool(), microbatches, MostTail(*options_, sizes_, sequences),
        MostWaiting(options, *options_, sequences, mini_batches_));
    if (!costs.ok()) return costs.status();
    costs_ = *std::move(costs);
    CostModel without_exchange = options.cost_model;
    without_exchange.exchange.clear();
    const absl::StatusOr<CostFunction> computation =
        CostFunction::Create(without_exchange, shared.front(), microbatches, 0);
    if (!computation.ok()) return computation.status();
    computation_ = *computation;
  }
  if (options.topology.pipeline_parallel > 1) {
    Pipeline pipeline = PipelineOf(options.topology, options.pipeline, options_->forward_only);
    pipeline.transfer = cost().FromUnits(pipeline.transfer);
    pipeline_ = std::make_shared<const Pipeline>(std::move(pipeline));
  }
  return absl::OkStatus();
}

void Pass::SetRows(Sharding first) {
  bin_limits_.capacity = sizes_.front().widest_row();
  padded_limits_.tokens = options_->max_tokens_per_microbatch;
  if (options_->max_sequences_per_microbatch > 0) {
    bin_limits_.max_sequences = options_->max_sequences_per_microbatch;
    padded_limits_.sequences = options_->max_sequences_per_microbatch;
  }
  // In the padded layout more than half of a micro-batch, so that nothing fits beside it.
  const uint32_t limit = AlignDown(options_->max_tokens_per_microbatch, length_multiple());
  longest_beside_ = options_->layout == Layout::kPacked ? bin_limits_.capacity : limit;
  some_run_alone_ =
      !sizes_differ() &&
      (loads_.some_are_above_limits() ||
       std::ranges::any_of(aligned(), [&](uint32_t length) { return length > limit; }));
  same_widths_ = !some_run_alone_ && SharesWidths(*options_, first);
}

size_t Pass::SizeOf(uint32_t ranks) const {
  return std::ranges::find(sizes_, ranks, &GroupLimits::ranks) - sizes_.begin();
}

std::string Pass::WhereOf(size_t k) const {
  return options_->ignore_mini_batches ? where_ : absl::StrCat(where_, ": mini-batch ", k);
}

uint64_t Pass::fewest_groups() const {
  if (!sizes_differ()) return ranks();
  // Plus the binary ones of what the largest size leaves.
  const uint32_t largest = ContextSizes(*topology_).back();
  return pool() / largest + std::popcount(pool() % largest);
}

Pass Pass::With(Effort effort) const {
  Pass other = *this;
  other.effort_ = effort;
  if (plain_ != nullptr) other.plain_ = std::make_shared<Pass>(plain_->With(effort));
  if (without_phases_ != nullptr) {
    other.without_phases_ = std::make_shared<Pass>(without_phases_->With(effort));
  }
  if (without_multiple_ != nullptr) {
    other.without_multiple_ = std::make_shared<Pass>(without_multiple_->With(effort));
  }
  return other;
}

Pass Pass::With(const PassOptions& method) const {
  Pass other = *this;
  other.options_ = std::make_shared<const PassOptions>(method);
  other.same_widths_ = !some_run_alone_ && SharesWidths(method, method.sharding);
  if (plain_ != nullptr) other.plain_ = std::make_shared<Pass>(plain_->With(method));
  if (without_phases_ != nullptr) {
    other.without_phases_ = std::make_shared<Pass>(without_phases_->With(method));
  }
  if (without_multiple_ != nullptr) {
    PassOptions any = method;
    any.sequence_count_multiple = 1;
    other.without_multiple_ = std::make_shared<Pass>(without_multiple_->With(any));
  }
  return other;
}

Pass Pass::OfOneKind(bool may_be_empty, const CountRule& counts) const {
  Pass other = *this;
  other.keeps_kinds_ = false;
  other.allow_empty_ = allow_empty_ && may_be_empty;
  other.counts_ = counts;
  if (plain_ != nullptr) {
    other.plain_ = std::make_shared<Pass>(plain_->OfOneKind(may_be_empty, counts));
  }
  if (without_phases_ != nullptr) {
    other.without_phases_ =
        std::make_shared<Pass>(without_phases_->OfOneKind(may_be_empty, counts));
  }
  if (without_multiple_ != nullptr) {
    other.without_multiple_ =
        std::make_shared<Pass>(without_multiple_->OfOneKind(may_be_empty, counts));
  }
  return other;
}

std::optional<Pass> Pass::OnOneSize(size_t size) const {
  const GroupLimits& limits = sizes_[size];
  const bool is_possible =
      pool() % limits.ranks == 0 && std::ranges::max(aligned(size)) <= limits.capacity;
  if (!is_possible) return std::nullopt;
  Topology topology = *topology_;
  topology.data_parallel = pool() / limits.ranks;
  topology.context_parallel = limits.ranks;
  topology.dynamic_context.reset();
  PassOptions options = *options_;
  options.sharding = Sharding::kBalanced;
  options.max_tokens_per_microbatch = limits.capacity;
  options.buckets = limits.buckets;
  Pass other = With(options);
  other.topology_ = std::make_shared<const Topology>(topology);
  other.sizes_ = {limits};
  other.aligned_ = {aligned_[size]};
  other.computation_.reset();
  if (!other.SetCosts(*request_).ok()) return std::nullopt;
  other.SetRows(Sharding::kBalanced);
  if (!other.Check().ok()) return std::nullopt;
  return other;
}

bool Pass::may_deal_bins() const {
  return options_->layout == Layout::kPacked && !options_->keeps_counts() &&
         !units_are_lists_of_items();
}

Pass Pass::WithoutMultiples() const {
  PassOptions options = *options_;
  options.sequence_count_multiple = 1;
  Pass other = With(options);
  other.rank_multiple_ = 1;
  return other;
}

SequenceLists Pass::UnitLists(std::span<const SequenceIndex> sequences) const {
  return Bundled(
      *this, groups_keep_rank_ ? groups_->Together(sequences) : SequenceLists::Singles(sequences),
      rank_multiple_);
}

SequenceLists Pass::ItemLists(std::span<const SequenceIndex> sequences) const {
  return Bundled(
      *this,
      groups_keep_microbatch_ ? groups_->Together(sequences) : SequenceLists::Singles(sequences),
      row_multiple());
}

Units Pass::UnitsOf(std::span<const SequenceIndex> sequences) const {
  const bool tokens = options_->balance_on == BalanceOn::kTokens;
  const std::span<const uint32_t> lengths = aligned();
  Units units{.sequences = UnitLists(sequences), .counts = {}, .loads = {}};
  const SequenceLists& lists = units.sequences;
  units.counts.reserve(lists.size());
  units.loads.reserve(lists.size());
  if (prefixes_ != nullptr) {
    const Items items = ItemsFrom(units.sequences);
    for (size_t unit = 0; unit < lists.size(); ++unit) {
      units.counts.push_back(static_cast<uint32_t>(lists[unit].size()));
      units.loads.push_back(tokens ? items.widths()[unit] : items.costs[unit]);
    }
    return units;
  }
  for (size_t unit = 0; unit < lists.size(); ++unit) {
    uint64_t load = 0;
    for (SequenceIndex sequence : lists[unit]) {
      const uint32_t length = lengths[sequence.value()];
      load += tokens ? length : cost().OfSequence(length) + loads_.InMicrobatch(sequence);
    }
    units.counts.push_back(static_cast<uint32_t>(lists[unit].size()));
    units.loads.push_back(load);
  }
  return units;
}

Items Pass::ItemsOf(std::span<const SequenceIndex> sequences) const {
  return ItemsFrom(ItemLists(sequences));
}

Items Pass::ItemsFrom(SequenceLists lists) const {
  Items items;
  items.lengths.reserve(lists.size());
  items.costs.reserve(lists.size());
  if (some_run_alone_) items.whole_lengths.reserve(lists.size());
  const bool padded = options_->layout == Layout::kPadded;
  const std::span<const uint32_t> lengths = aligned();
  const CostFunction& of_one = cost();
  const auto join = [&](uint32_t length, uint32_t other) {
    return padded ? std::max(length, other) : length + other;
  };
  std::vector<SequenceIndex> row;
  for (size_t item = 0; item < lists.size(); ++item) {
    uint32_t length = 0;
    uint32_t whole = 0;
    Cost of_item = 0;
    if (prefixes_ != nullptr && lists[item].size() > 1) {
      row.assign(lists[item].begin(), lists[item].end());
      prefixes_->Sort(row);
      length = whole = static_cast<uint32_t>(prefixes_->TokensOf(row, lengths));
      of_item = CostOf(row, 0) - of_one.OfMicrobatch();
    } else {
      for (SequenceIndex sequence : lists[item]) {
        const uint32_t own = lengths[sequence.value()];
        length = join(length, RoomOf(sequence));
        whole = join(whole, own);
        of_item += of_one.OfSequence(own) + loads_.InMicrobatch(sequence);
      }
    }
    items.lengths.push_back(length);
    if (some_run_alone_) items.whole_lengths.push_back(whole);
    items.costs.push_back(of_item);
  }
  if (items_are_lists()) {
    items.counts.reserve(lists.size());
    for (size_t item = 0; item < lists.size(); ++item) {
      items.counts.push_back(static_cast<uint32_t>(lists[item].size()));
    }
  }
  items.limited =
      loads_.LimitedOf(lists, [&](SequenceIndex sequence) { return RunsAlone(sequence); });
  items.sequences = std::move(lists);
  return items;
}

std::vector<Cost> Pass::SequenceCosts(std::span<const SequenceIndex> sequences) const {
  const std::span<const uint32_t> lengths = aligned();
  std::vector<Cost> costs;
  costs.reserve(sequences.size());
  for (const SequenceIndex sequence : sequences) {
    costs.push_back(cost().OfSequence(lengths[sequence.value()]) + loads_.InMicrobatch(sequence));
  }
  return costs;
}

Objective Pass::ObjectiveOf(const Items& items) const {
  Objective objective;
  if (options_->balance_on == BalanceOn::kTokens && pipeline_ == nullptr) {
    objective.loads.assign(items.widths().begin(), items.widths().end());
    return objective;
  }
  objective.loads = items.costs;
  objective.per_microbatch = cost().OfMicrobatch() + CostOfWholeRow(bin_limits_.capacity);
  objective.is_cost = !rows_are_whole();
  for (uint32_t i = 0; i < items.size(); ++i) {
    objective.loads[i] -= CostOfTokens(items.lengths[i], items.costs[i]);
  }
  return objective;
}

std::vector<uint32_t> Pass::RowWidths(std::vector<uint32_t> widths,
                                      std::span<const uint32_t> context_sizes) const {
  if (options_->layout == Layout::kPadded || options_->rows == RowPadding::kNone) return widths;
  const auto size_of = [&](size_t m) {
    return context_sizes.empty() ? 0 : SizeOf(context_sizes[m]);
  };
  std::vector<uint32_t> longest(sizes_.size(), 0);
  for (size_t m = 0; m < widths.size(); ++m) {
    longest[size_of(m)] = std::max(longest[size_of(m)], widths[m]);
  }
  for (size_t m = 0; m < widths.size(); ++m) {
    uint32_t& row = widths[m];
    const GroupLimits& size = sizes_[size_of(m)];
    if (row == 0 || row > size.widest_row()) continue;
    switch (options_->rows) {
      case RowPadding::kNone:
        break;
      case RowPadding::kLongest:
        row = longest[size_of(m)];
        break;
      case RowPadding::kCapacity:
        row = size.capacity;
        break;
      case RowPadding::kBuckets:
        row = *std::lower_bound(size.buckets.begin(), size.buckets.end(), row);
        break;
    }
  }
  return widths;
}

uint32_t Pass::RowOf(std::span<const SequenceIndex> microbatch) const {
  if (prefixes_ != nullptr) {
    const uint64_t tokens = prefixes_->TokensOf(microbatch, aligned());
    return static_cast<uint32_t>(AlignUp(tokens, length_multiple()));
  }
  uint32_t tokens = 0;
  for (const SequenceIndex sequence : microbatch) tokens += aligned()[sequence.value()];
  return tokens;
}

Cost Pass::CostOf(std::span<const SequenceIndex> microbatch, uint32_t width, size_t size) const {
  const CostFunction& of_one = cost(size);
  if (options_->layout == Layout::kPadded) {
    return of_one.OfSequence(width) * microbatch.size() + of_one.OfMicrobatch();
  }
  const std::span<const uint32_t> lengths = aligned(size);
  Cost sum = of_one.OfMicrobatch();
  uint32_t tokens = 0;
  if (prefixes_ == nullptr) {
    for (const SequenceIndex sequence : microbatch) {
      tokens += lengths[sequence.value()];
      sum += of_one.OfSequence(lengths[sequence.value()]) + loads_.InMicrobatch(sequence);
    }
  } else {
    for (size_t i = 0; i < microbatch.size(); ++i) {
      const uint32_t length = lengths[microbatch[i].value()];
      const uint32_t shared = i == 0 ? 0 : prefixes_->Common(microbatch[i - 1], microbatch[i]);
      tokens += length - shared;
      sum += of_one.OfBranch(length, shared) + loads_.InMicrobatch(microbatch[i]);
    }
  }
  return width > tokens ? sum + of_one.OfTail(width - tokens) : sum;
}

std::vector<uint64_t> Pass::TrueTokensOf(const SequenceLists& lists) const {
  std::vector<uint64_t> tokens(lists.size(), 0);
  for (size_t list = 0; list < lists.size(); ++list) {
    for (SequenceIndex sequence : lists[list]) tokens[list] += planned_[sequence.value()];
  }
  return tokens;
}

}  // namespace batchplan
