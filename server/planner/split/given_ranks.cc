#include "server/planner/split/given_ranks.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

absl::Status CheckGroupsAreWhole(const Manifest& manifest, GroupPolicy policy,
                                 const Groups& groups) {
  if (policy != GroupPolicy::kSameRank && policy != GroupPolicy::kSameMicrobatch) {
    return absl::OkStatus();
  }
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> first_of(groups.size(), kNone);
  for (uint32_t i = 0; i < manifest.ranks.size(); ++i) {
    uint32_t& first = first_of[groups[SequenceIndex(i)]];
    if (first == kNone) first = i;
    if (manifest.ranks[i] == manifest.ranks[first]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "manifest.ranks[", i, "] is ", manifest.ranks[i], ", but sequence ", first,
        " of the same group ", manifest.group_ids[i], " is on rank ", manifest.ranks[first],
        ": the group would be torn, and mini_batches.groups is ",
        policy == GroupPolicy::kSameRank ? "GROUP_POLICY_SAME_RANK"
                                         : "GROUP_POLICY_SAME_MICROBATCH"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckGivenRanks(const Manifest& manifest, const PlanOptions& options,
                             const Groups& groups) {
  if (manifest.ranks.empty()) return absl::OkStatus();
  if (options.topology.dynamic_context) {
    return absl::InvalidArgumentError(
        "manifest.ranks has the rank of every sequence, but topology.dynamic_context is set: a "
        "sequence is on as many ranks as its group has; leave one of them out");
  }
  if (manifest.ranks.size() != manifest.lengths.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "manifest.ranks has ", manifest.ranks.size(), " entries, but manifest.lengths has ",
        manifest.lengths.size(), "; give one a sequence, or none"));
  }
  for (size_t i = 0; i < manifest.ranks.size(); ++i) {
    if (manifest.ranks[i] < options.topology.data_parallel) continue;
    return absl::InvalidArgumentError(absl::StrCat("manifest.ranks[", i, "] is ", manifest.ranks[i],
                                                   "; it must be below topology.data_parallel ",
                                                   options.topology.data_parallel));
  }
  if (const Sharding sharding = options.passes.front().sharding; sharding != Sharding::kBalanced) {
    return absl::InvalidArgumentError(
        absl::StrCat("passes[0].sharding is ", NameOf(sharding),
                     ", but manifest.ranks has the rank of every sequence; leave one of them out"));
  }
  return CheckGroupsAreWhole(manifest, options.mini_batches.groups, groups);
}

}  // namespace batchplan
