#include "server/planner/pass/pass_checks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/planner/request/context_sizes.h"

namespace batchplan {
namespace {

// The most ranks times slots if slots may be empty: they are walked through again and again.
constexpr uint64_t kMaxRankSlots = uint64_t{1} << 24;

absl::Status CheckEmptyOfRanks(const Pass& pass) {
  const CountRule& counts = pass.counts();
  const uint64_t least = counts.RoundUp(1);
  if (least <= kMaxEmptyMicrobatches / pass.ranks() / pass.mini_batches()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      pass.where(), ": min_microbatches ", counts.minimum, " and a multiple of ", counts.multiple,
      " ask for ", least, " micro-batches on each rank of data_parallel ", pass.ranks(), " in ",
      pass.mini_batches(), " mini-batches, more than ", kMaxEmptyMicrobatches,
      " in all, the limit where allow_empty_microbatches is set"));
}

absl::Status CheckEmptyOfPool(const Pass& pass) {
  const CountRule& counts = pass.counts();
  const uint64_t least = counts.RoundUp(1);
  if (least > kMaxEmptyMicrobatches / pass.fewest_groups() / pass.mini_batches()) {
    return absl::InvalidArgumentError(absl::StrCat(
        pass.where(), ": min_microbatches ", counts.minimum, " and a multiple of ", counts.multiple,
        " ask for ", least, " slots of at least ", pass.fewest_groups(),
        " micro-batches each, groups of ", ContextSizes(pass.topology()).back(),
        " ranks and fewer on the ", pass.pool(), " ranks of topology.dynamic_context, in ",
        pass.mini_batches(), " mini-batches, more than ", kMaxEmptyMicrobatches,
        " in all, the limit where allow_empty_microbatches is set"));
  }
  if (least <= kMaxRankSlots / pass.pool() / pass.mini_batches()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      pass.where(), ": min_microbatches ", counts.minimum, " and a multiple of ", counts.multiple,
      " ask for ", least, " slots in ", pass.mini_batches(), " mini-batches, times the ",
      pass.pool(), " ranks of topology.dynamic_context more than ", kMaxRankSlots,
      ", the limit where allow_empty_microbatches is set"));
}

// CheckGroupsFit with shared prefixes: a group needs the tokens of its tree.
absl::Status CheckTreesFit(const Manifest& manifest, const Pass& pass) {
  std::vector<SequenceIndex> planned;
  for (uint32_t i = 0; i < pass.aligned().size(); ++i) {
    if (pass.aligned()[i] > 0) planned.emplace_back(i);
  }
  pass.prefixes()->Sort(planned);
  const SequenceLists groups = pass.groups().Together(planned);
  for (size_t group = 0; group < groups.size(); ++group) {
    const uint32_t id = manifest.group_ids[groups[group].front().value()];
    const uint64_t tokens = pass.prefixes()->TokensOf(groups[group], pass.aligned());
    if (tokens > pass.bin_limits().capacity) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group ", id, " takes ", tokens,
          " tokens, those that its sequences share once, and ", pass.where(),
          ".max_tokens_per_microbatch ", pass.options().max_tokens_per_microbatch, " holds ",
          pass.bin_limits().capacity));
    }
    if (groups[group].size() > pass.bin_limits().max_sequences) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group ", id, " has ",
          groups[group].size(), " sequences, and ", pass.where(),
          ".max_sequences_per_microbatch is ", pass.options().max_sequences_per_microbatch));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGroupsFitRanks(const Manifest& manifest, const Pass& pass) {
  struct Group {
    uint64_t count = 0;
    uint64_t tokens = 0;
    uint32_t width = 0;
  };
  const bool padded = pass.options().layout == Layout::kPadded;
  const uint64_t most_tokens = padded ? pass.padded_limits().tokens : pass.bin_limits().capacity;
  std::vector<Group> groups(pass.groups().size());
  for (uint32_t i = 0; i < pass.aligned().size(); ++i) {
    const uint32_t length = pass.aligned()[i];
    if (length == 0) continue;
    Group& group = groups[pass.groups()[SequenceIndex(i)]];
    ++group.count;
    group.tokens += length;
    group.width = std::max(group.width, length);
    const uint64_t tokens = padded ? group.count * group.width : group.tokens;
    if (tokens > most_tokens) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group ", manifest.group_ids[i],
          " takes ", tokens, " tokens or more, and ", pass.where(), ".max_tokens_per_microbatch ",
          pass.options().max_tokens_per_microbatch, " holds ", most_tokens));
    }
    if (group.count > pass.bin_limits().max_sequences) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group ", manifest.group_ids[i],
          " has ", group.count, " sequences or more, and ", pass.where(),
          ".max_sequences_per_microbatch is ", pass.options().max_sequences_per_microbatch));
    }
  }
  return absl::OkStatus();
}

// Checks limited loads, except dealt ones, which don't depend on groups.
absl::Status CheckLoadsOfGroupsFit(const Manifest& manifest, const Pass& pass) {
  const Groups& groups = pass.groups();
  std::vector<double> sums;
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < pass.loads().limits().size(); ++i) {
    const LoadBudget& limit = pass.loads().limits()[i];
    if (limit.dealt) continue;
    sums.assign(groups.size(), 0);
    counts.assign(groups.size(), 0);
    for (uint32_t sequence = 0; sequence < pass.aligned().size(); ++sequence) {
      if (pass.aligned()[sequence] == 0) continue;
      const size_t group = groups[SequenceIndex(sequence)];
      sums[group] += pass.loads().given().Of(limit.load, SequenceIndex(sequence));
      // A single sequence may run alone.
      if (++counts[group] > 1 && sums[group] > limit.most) {
        return absl::InvalidArgumentError(absl::StrCat(
            "mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group ",
            manifest.group_ids[sequence], " has ", sums[group], " or more of load ",
            QuotedLoad(pass.loads().given().name(limit.load)), ", and ", pass.where(), ".limits[",
            i, "].max_per_microbatch is ", pass.options().limits[i].max_per_microbatch));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGroupsFitPool(const Manifest& manifest, const Pass& pass) {
  const Groups& groups = pass.groups();
  std::vector<uint32_t> counts(groups.size(), 0);
  // By group of sequences, whether some size holds it.
  std::vector<bool> held(groups.size(), false);
  std::vector<uint64_t> tokens;
  for (size_t size = 0; size < pass.sizes().size(); ++size) {
    tokens.assign(groups.size(), 0);
    for (uint32_t i = 0; i < pass.aligned(size).size(); ++i) {
      const size_t group = groups[SequenceIndex(i)];
      const uint32_t length = pass.aligned(size)[i];
      tokens[group] += length;
      if (size == 0 && length > 0) ++counts[group];
    }
    for (size_t group = 0; group < held.size(); ++group) {
      held[group] = held[group] || tokens[group] <= pass.sizes()[size].widest_row();
    }
  }
  const GroupLimits& largest = pass.sizes().back();
  const uint32_t most = pass.options().max_sequences_per_microbatch;
  for (uint32_t i = 0; i < manifest.group_ids.size(); ++i) {
    const size_t group = groups[SequenceIndex(i)];
    if (!held[group]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group ", manifest.group_ids[i],
          " takes ", tokens[group], " tokens, and with ", pass.where(),
          ".max_tokens_per_microbatch ", pass.options().max_tokens_per_microbatch, " ",
          largest.ranks, " ranks, the most of topology.dynamic_context, hold ",
          largest.widest_row()));
    }
    if (most > 0 && counts[group] > most) {
      return absl::InvalidArgumentError(
          absl::StrCat("mini_batches.groups is GROUP_POLICY_SAME_MICROBATCH, but group ",
                       manifest.group_ids[i], " has ", counts[group], " sequences, and ",
                       pass.where(), ".max_sequences_per_microbatch is ", most));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBucketsFit(const Pass& pass) {
  const PassOptions& options = pass.options();
  if (options.rows != RowPadding::kBuckets) return absl::OkStatus();
  // Larger groups hold whatever smaller ones do.
  const GroupLimits& largest = pass.sizes().back();
  uint32_t longest = 0;
  for (const uint32_t length : pass.aligned(pass.sizes().size() - 1)) {
    if (length <= largest.capacity) longest = std::max(longest, length);
  }
  if (longest <= largest.widest_row()) return absl::OkStatus();
  const std::string of_groups =
      pass.sizes_differ() ? absl::StrCat(", so that groups of ", largest.ranks,
                                         " ranks, the most of topology.dynamic_context, hold ",
                                         largest.widest_row())
                          : "";
  return absl::InvalidArgumentError(absl::StrCat(
      pass.where(), ".packed.buckets ends at ", options.buckets.back(), of_groups,
      ", but the longest sequence takes ", longest, " tokens; add a bucket that holds it"));
}

absl::Status CheckGroupsFit(const Manifest& manifest, const Pass& pass) {
  if (!pass.groups_keep_microbatch()) return absl::OkStatus();
  if (absl::Status status = CheckLoadsOfGroupsFit(manifest, pass); !status.ok()) return status;
  if (pass.prefixes() != nullptr) return CheckTreesFit(manifest, pass);
  return pass.sizes_differ() ? CheckGroupsFitPool(manifest, pass)
                             : CheckGroupsFitRanks(manifest, pass);
}

absl::StatusOr<uint64_t> EmptyMicrobatchesAskedFor(const Pass& pass) {
  if (!pass.allow_empty()) return 0;
  absl::Status status = pass.sizes_differ() ? CheckEmptyOfPool(pass) : CheckEmptyOfRanks(pass);
  if (!status.ok()) return status;
  return pass.counts().RoundUp(1) * (pass.sizes_differ() ? 1 : pass.ranks()) * pass.mini_batches();
}

absl::Status CheckKindsOfGroups(const Manifest& manifest, const Pass& pass) {
  if (!pass.keeps_kinds() || !pass.groups_keep_microbatch() ||
      pass.options().kinds_per_slot != KindsPerSlot::kAlike) {
    return absl::OkStatus();
  }
  std::map<uint32_t, uint32_t> kind_of;
  for (size_t i = 0; i < manifest.kinds.size(); ++i) {
    const auto [first, is_new] = kind_of.try_emplace(manifest.group_ids[i], manifest.kinds[i]);
    if (is_new || first->second == manifest.kinds[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(pass.where(), ".kinds_per_slot is KINDS_PER_SLOT_ALIKE, but group ",
                     manifest.group_ids[i], " has sequences of kinds ", first->second, " and ",
                     manifest.kinds[i], ", and mini_batches.groups keeps it in one micro-batch"));
  }
  return absl::OkStatus();
}

}  // namespace batchplan
