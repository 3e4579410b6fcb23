#include "server/checker/request_demands.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

constexpr uint64_t kMaxUint32 = std::numeric_limits<uint32_t>::max();

// Parallel sizes and multiples of 0 mean 1.
uint64_t AtLeastOne(uint64_t value) { return value == 0 ? 1 : value; }

// Checks that a row above the budget makes no other row as wide, and that no group is torn apart.
absl::Status CheckAlone(const PlanOptions& options) {
  if (options.overlong != OverlongPolicy::kAlone) return absl::OkStatus();
  if (options.mini_batches.groups == GroupPolicy::kSameMicrobatch) {
    return Violation("groups share micro-batches, but overlong sequences are to run alone");
  }
  for (size_t i = 0; i < options.passes.size(); ++i) {
    const PassOptions& pass = options.passes[i];
    const bool packed = pass.layout == Layout::kPacked;
    const bool strided = options.passes[0].sharding == Sharding::kStrideSorted;
    if (packed ? pass.rows == RowPadding::kLongest : strided && pass.scan == Scan::kSorted) {
      return Violation("passes[", i,
                       "] makes rows as wide as others, but overlong sequences are to run alone");
    }
  }
  return absl::OkStatus();
}

// Checks what dynamic_context requires: packed rows, on groups that the planner chooses.
absl::Status CheckDynamicContext(const Manifest& manifest, const PlanOptions& options) {
  const bool megatron = options.passes[0].sharding == Sharding::kMegatronDynamicCp;
  if (!options.topology.dynamic_context) {
    return megatron ? Violation("passes[0].sharding divides a pool, but there is none")
                    : absl::OkStatus();
  }
  if (!manifest.ranks.empty())
    return Violation("manifest.ranks is given, but groups are to differ");
  if (options.mini_batches.groups == GroupPolicy::kSameRank) {
    return Violation("sequences are to share a rank, but groups of ranks are to differ");
  }
  if (options.overlong == OverlongPolicy::kAlone) {
    return Violation("overlong sequences are to run alone, but groups are to differ");
  }
  if (options.passes[0].sequence_counts != EqualCounts::kAny ||
      !(megatron || options.passes[0].sharding == Sharding::kBalanced)) {
    return Violation("passes[0] divides sequences among single ranks, but groups are to differ");
  }
  for (size_t i = 0; i < options.passes.size(); ++i) {
    const PassOptions& pass = options.passes[i];
    if (pass.layout == Layout::kPadded || pass.packer != Packer::kBalanced ||
        pass.balance_on == BalanceOn::kTokens) {
      return Violation("passes[", i, "] is padded, packs or balances otherwise than groups that ",
                       "differ can");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const Manifest& manifest, const PlanOptions& options) {
  const Topology& topology = options.topology;
  for (uint32_t size : {topology.data_parallel, topology.context_parallel, topology.tensor_parallel,
                        topology.pipeline_parallel, topology.virtual_pipeline}) {
    if (size > kMaxParallelSize) {
      return Violation("topology has a parallel size of ", size, ", above ", kMaxParallelSize);
    }
  }
  const size_t count = manifest.lengths.size();
  if (count == 0) return Violation("manifest.lengths is empty");
  if (count > kMaxUint32) {
    return Violation("manifest.lengths has ", count, " entries, above ", kMaxUint32);
  }
  for (size_t i = 0; i < count; ++i) {
    if (manifest.lengths[i] == 0) return Violation("manifest.lengths[", i, "] is 0");
  }
  if (!manifest.group_ids.empty() && manifest.group_ids.size() != count) {
    return Violation("manifest.group_ids has ", manifest.group_ids.size(),
                     " entries, but there are ", count, " sequences");
  }
  if (!manifest.ranks.empty() && manifest.ranks.size() != count) {
    return Violation("manifest.ranks has ", manifest.ranks.size(), " entries, but there are ",
                     count, " sequences");
  }
  for (size_t i = 0; i < manifest.ranks.size(); ++i) {
    if (manifest.ranks[i] >= AtLeastOne(topology.data_parallel)) {
      return Violation("manifest.ranks[", i, "] is ", manifest.ranks[i],
                       ", not below topology.data_parallel ", topology.data_parallel);
    }
  }
  if (options.passes.empty()) return Violation("the request has no passes");
  if (absl::Status status = CheckDynamicContext(manifest, options); !status.ok()) return status;
  return CheckAlone(options);
}

// lcm(length_multiple, t), where t is what the topology needs. Context parallelism splits a
// sequence into two chunks a rank; sequence parallelism splits each chunk, or the sequence, among
// its ranks.
absl::StatusOr<uint32_t> LengthMultiple(const Topology& topology, const PassOptions& pass) {
  const uint64_t context_parallel = AtLeastOne(topology.context_parallel);
  uint64_t of_topology = 1;
  if (context_parallel > 1) of_topology = 2 * context_parallel;
  if (topology.sequence_parallel) of_topology *= AtLeastOne(topology.tensor_parallel);

  const uint64_t asked = AtLeastOne(pass.length_multiple);
  const uint64_t factor = asked / std::gcd(asked, of_topology);
  if (factor > kMaxUint32 / of_topology) {
    return Violation("the length multiple of ", asked, " and the topology's ", of_topology,
                     " is above ", kMaxUint32);
  }
  return static_cast<uint32_t>(factor * of_topology);
}

// The sizes that groups may have: powers of two from min_size, if min_size divides the pool, and
// the pool itself; none above max_size. At least one of them holds a sequence.
absl::StatusOr<std::vector<GroupDemands>> GroupSizes(const Topology& topology,
                                                     const PassOptions& pass) {
  // No row is longer, so that rounded lengths fit 32 bits.
  constexpr uint64_t kLongestRow = uint64_t{1} << 31;
  const uint64_t context_parallel = AtLeastOne(topology.context_parallel);
  const uint64_t pool = AtLeastOne(topology.data_parallel) * context_parallel;
  const uint64_t least = topology.dynamic_context->min_size;
  const uint64_t asked = topology.dynamic_context->max_size;
  if (pool > kMaxParallelSize) return Violation("the pool has ", pool, " ranks");
  if (least == 0 || (least & (least - 1)) != 0 || least > pool ||
      (asked != 0 && (asked < least || asked > pool))) {
    return Violation("topology.dynamic_context has sizes of ", least, " to ", asked,
                     " for a pool of ", pool, " ranks");
  }
  std::vector<GroupDemands> sizes;
  for (uint64_t ranks = 1; ranks <= pool; ++ranks) {
    const bool power = (ranks & (ranks - 1)) == 0 && ranks >= least && pool % least == 0;
    if ((!power && ranks != pool) || (asked != 0 && ranks > asked)) continue;
    Topology own = topology;
    own.context_parallel = static_cast<uint32_t>(ranks);
    const uint64_t budget =
        std::min(kLongestRow, ranks * pass.max_tokens_per_microbatch / context_parallel);
    GroupDemands& size = sizes.emplace_back();
    size.ranks = static_cast<uint32_t>(ranks);
    const absl::StatusOr<uint32_t> multiple = LengthMultiple(own, pass);
    if (!multiple.ok()) continue;
    size.length_multiple = *multiple;
    size.length_limit = static_cast<uint32_t>(budget - budget % *multiple);
    for (const uint64_t bucket : pass.buckets) {
      const uint64_t width = bucket * ranks / context_parallel;
      if (bucket * ranks % context_parallel != 0 || width % *multiple != 0 || width > kLongestRow) {
        return Violation("a row bucket of ", bucket, " makes no rows for groups of ", ranks,
                         " ranks, which round lengths up to multiples of ", *multiple);
      }
      size.buckets.push_back(static_cast<uint32_t>(width));
    }
    std::sort(size.buckets.begin(), size.buckets.end());
  }
  if (std::all_of(sizes.begin(), sizes.end(),
                  [](const GroupDemands& size) { return size.length_limit == 0; })) {
    return Violation("no size of topology.dynamic_context holds a sequence");
  }
  return sizes;
}

// Renumbers group ids from 0, so that they can index arrays.
std::vector<uint32_t> NumberGroups(std::span<const uint32_t> ids) {
  std::vector<uint32_t> distinct(ids.begin(), ids.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<uint32_t> group_of;
  group_of.reserve(ids.size());
  for (uint32_t id : ids) {
    const auto found = std::lower_bound(distinct.begin(), distinct.end(), id);
    group_of.push_back(static_cast<uint32_t>(found - distinct.begin()));
  }
  return group_of;
}

// Counts the mini-batches and their sequences or groups. Fills counts_groups and the fields behind
// it.
absl::Status CountMiniBatches(const Manifest& manifest, const MiniBatching& asked,
                              RequestDemands& demands) {
  demands.counts_groups = asked.group_count > 0;
  if (demands.counts_groups && (asked.size > 0 || manifest.group_ids.empty())) {
    return Violation("mini_batches.group_count is ", asked.group_count, ", beside size ",
                     asked.size, " and ", manifest.group_ids.size(), " group_ids");
  }
  uint64_t total = manifest.lengths.size();
  uint64_t each = asked.size == 0 ? total : asked.size;
  if (demands.counts_groups) {
    total = 1 + *std::max_element(demands.group_of.begin(), demands.group_of.end());
    each = asked.group_count;
  }
  const uint64_t rest = total % each;
  if (rest != 0 && asked.last != LastMiniBatch::kSmaller) {
    return Violation(
        demands.counts_groups ? "mini_batches.group_count is " : "mini_batches.size is ", each,
        ", which does not divide the ", total, demands.counts_groups ? " groups" : " sequences",
        " of the manifest");
  }
  demands.mini_batch_size = each;
  demands.last_size = rest == 0 ? each : rest;
  demands.mini_batches = (total - demands.last_size) / each + 1;
  return absl::OkStatus();
}

// Cuts an order that is known (the manifest's, or by ascending length) into mini-batches of `size`
// sequences, or of `size` groups if these are counted. A group that stays together has the place of
// its first member and the length of its longest one.
std::vector<uint32_t> CutMiniBatches(std::span<const uint32_t> lengths, Order asked, uint64_t size,
                                     bool counts_groups, const std::vector<uint32_t>& group_of) {
  const size_t count = lengths.size();
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (!group_of.empty()) {
    std::vector<size_t> first_member(count, count);
    for (size_t i = 0; i < count; ++i) {
      first_member[group_of[i]] = std::min(first_member[group_of[i]], i);
    }
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return first_member[group_of[a]] < first_member[group_of[b]];
    });
  }
  if (asked == Order::kStratified) {
    const auto unit = [&](uint32_t i) { return group_of.empty() ? i : group_of[i]; };
    std::vector<uint32_t> longest(count, 0);
    for (uint32_t i = 0; i < count; ++i) {
      longest[unit(i)] = std::max(longest[unit(i)], lengths[i]);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return longest[unit(a)] < longest[unit(b)]; });
  }
  std::vector<uint32_t> mini_batch_of(count);
  uint64_t before = 0;  // sequences, or groups
  for (size_t position = 0; position < count; ++position) {
    const bool begins = !counts_groups || position == 0 ||
                        group_of[order[position]] != group_of[order[position - 1]];
    if (position > 0 && begins) ++before;
    mini_batch_of[order[position]] = static_cast<uint32_t>(before / size);
  }
  return mini_batch_of;
}

// Fills planned_lengths, planned_sequences, excluded and any_dropped.
absl::Status ApplyOverlongPolicy(const Manifest& manifest, OverlongPolicy policy,
                                 const RequestLoads& loads, RequestDemands& demands) {
  const uint32_t limit = demands.length_limit;
  const auto too_much = [&](size_t i) { return loads.ExceedsOne(static_cast<uint32_t>(i)); };
  const auto overlong = [&](size_t i) { return manifest.lengths[i] > limit || too_much(i); };

  std::vector<bool> group_dropped(demands.group_of.size(), false);
  if (policy == OverlongPolicy::kDrop && !demands.group_of.empty()) {
    for (size_t i = 0; i < manifest.lengths.size(); ++i) {
      if (overlong(i)) group_dropped[demands.group_of[i]] = true;
    }
  }
  for (size_t i = 0; i < manifest.lengths.size(); ++i) {
    const uint32_t length = manifest.lengths[i];
    const auto index = static_cast<uint32_t>(i);
    uint32_t planned = length;
    if (policy == OverlongPolicy::kDrop) {
      if (overlong(i) || (!demands.group_of.empty() && group_dropped[demands.group_of[i]])) {
        planned = 0;
        demands.any_dropped = true;
        demands.excluded.push_back({index, length, ExclusionReason::kDropped});
      }
    } else if (policy == OverlongPolicy::kAlone) {
      if (loads.ExceedsDealt(index)) {
        return Violation("sequence ", i, " has more of a dealt load than a limit allows, and is ",
                         "not dropped");
      }
      if (overlong(i)) demands.excluded.push_back({index, length, ExclusionReason::kAlone});
    } else if (too_much(i)) {
      return Violation("sequence ", i, " has more of a load than a limit allows, and is neither ",
                       "dropped nor alone");
    } else if (overlong(i)) {
      if (policy == OverlongPolicy::kReject) {
        return Violation("manifest.lengths[", i, "] is ", length, ", above the length limit ",
                         limit, ", and overlong sequences are rejected");
      }
      if (limit == 0) {
        return Violation("the length limit is 0, and manifest.lengths[", i,
                         "] can't be truncated to it");
      }
      planned = limit;
      demands.excluded.push_back({index, length, ExclusionReason::kTruncated});
    }
    demands.planned_lengths.push_back(planned);
    if (planned != 0) ++demands.planned_sequences;
  }
  if (demands.planned_sequences == 0) {
    return Violation("every sequence is above the length limit ", limit,
                     " or a limit of a load, and dropped");
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t AlignedLength(uint64_t length, uint32_t multiple) {
  const uint64_t rounded_up = length + multiple - 1;
  return rounded_up - rounded_up % multiple;
}

bool IsListedAsAlone(const RequestDemands& demands, uint32_t sequence) {
  const std::vector<ExcludedSequence>& listed = demands.excluded;
  const auto found = std::lower_bound(
      listed.begin(), listed.end(), sequence,
      [](const ExcludedSequence& one, uint32_t index) { return one.index < index; });
  return found != listed.end() && found->index == sequence &&
         found->reason == ExclusionReason::kAlone;
}

absl::StatusOr<RequestDemands> DemandsOf(const Manifest& manifest, const PlanOptions& options,
                                         const RequestLoads& loads) {
  if (absl::Status status = CheckRequest(manifest, options); !status.ok()) return status;

  const MiniBatching& mini_batches = options.mini_batches;
  RequestDemands demands;
  demands.data_parallel = AtLeastOne(options.topology.data_parallel);
  demands.pool = demands.data_parallel * AtLeastOne(options.topology.context_parallel);
  if ((mini_batches.groups != GroupPolicy::kIgnore || mini_batches.group_count > 0) &&
      !manifest.group_ids.empty()) {
    demands.group_of = NumberGroups(manifest.group_ids);
  }
  if (absl::Status status = CountMiniBatches(manifest, mini_batches, demands); !status.ok()) {
    return status;
  }
  demands.length_limit = std::numeric_limits<uint32_t>::max();
  for (const PassOptions& pass : options.passes) {
    Topology topology = options.topology;
    if (topology.dynamic_context) topology.context_parallel = 1;
    absl::StatusOr<uint32_t> multiple = LengthMultiple(topology, pass);
    if (!multiple.ok()) return multiple.status();
    const uint32_t budget = pass.max_tokens_per_microbatch;

    PassDemands& pass_demands = demands.passes.emplace_back();
    pass_demands.length_multiple = *multiple;
    pass_demands.length_limit = budget - budget % *multiple;
    if (topology.dynamic_context) {
      absl::StatusOr<std::vector<GroupDemands>> sizes = GroupSizes(options.topology, pass);
      if (!sizes.ok()) return sizes.status();
      pass_demands.groups = *std::move(sizes);
      pass_demands.length_limit = 0;
      for (const GroupDemands& size : pass_demands.groups) {
        pass_demands.length_limit = std::max(pass_demands.length_limit, size.length_limit);
      }
    }
    demands.length_limit = std::min(demands.length_limit, pass_demands.length_limit);
    pass_demands.min_microbatches = AtLeastOne(pass.min_microbatches);
    pass_demands.count_multiple = AtLeastOne(pass.microbatch_count_multiple);
    if (options.topology.virtual_pipeline > 1) {
      // An interleaved schedule runs micro-batches in groups, of one for each pipeline stage by
      // default.
      const uint64_t group = options.pipeline.group_size > 0
                                 ? options.pipeline.group_size
                                 : AtLeastOne(options.topology.pipeline_parallel);
      pass_demands.count_multiple = std::lcm(pass_demands.count_multiple, group);
    }
    pass_demands.mini_batches = pass.ignore_mini_batches ? 1 : demands.mini_batches;
  }
  if (mini_batches.order != Order::kShuffled) {
    demands.mini_batch_of =
        CutMiniBatches(manifest.lengths, mini_batches.order, demands.mini_batch_size,
                       demands.counts_groups, demands.group_of);
  }
  if (absl::Status status = ApplyOverlongPolicy(manifest, options.overlong, loads, demands);
      !status.ok()) {
    return status;
  }
  return demands;
}

}  // namespace batchplan::checker
