#include "server/planner/request/sequence_groups.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace batchplan {

Groups::Groups(const Manifest& manifest, GroupPolicy policy) {
  if (policy == GroupPolicy::kIgnore || manifest.group_ids.empty()) return;
  const std::span<const uint32_t> ids = manifest.group_ids;
  std::vector<uint32_t> by_id(ids.size());
  std::iota(by_id.begin(), by_id.end(), 0u);
  std::stable_sort(by_id.begin(), by_id.end(),
                   [&](uint32_t a, uint32_t b) { return ids[a] < ids[b]; });
  // First the first member of each sequence's group; then numbers in the order of these.
  group_of_.resize(ids.size());
  for (size_t i = 0; i < by_id.size(); ++i) {
    const bool same = i > 0 && ids[by_id[i]] == ids[by_id[i - 1]];
    group_of_[by_id[i]] = same ? group_of_[by_id[i - 1]] : by_id[i];
  }
  for (uint32_t i = 0; i < group_of_.size(); ++i) {
    group_of_[i] = group_of_[i] == i ? static_cast<uint32_t>(size_++) : group_of_[group_of_[i]];
  }
}

SequenceLists Groups::Together(std::span<const SequenceIndex> sequences) const {
  if (empty()) return SequenceLists::Singles(sequences);
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  SequenceLists lists;
  // Chains of members, so that the work goes by the given sequences, not by all groups.
  std::vector<uint32_t> firsts;
  std::vector<uint32_t> next(sequences.size(), kNone);
  std::vector<std::pair<uint32_t, uint32_t>> by_group;  // (group, position)
  by_group.reserve(sequences.size());
  for (uint32_t i = 0; i < sequences.size(); ++i) by_group.emplace_back((*this)[sequences[i]], i);
  std::sort(by_group.begin(), by_group.end());
  for (size_t i = 0; i < by_group.size(); ++i) {
    if (i > 0 && by_group[i].first == by_group[i - 1].first) {
      next[by_group[i - 1].second] = by_group[i].second;
    } else {
      firsts.push_back(by_group[i].second);
    }
  }
  std::sort(firsts.begin(), firsts.end());
  for (uint32_t first : firsts) {
    for (uint32_t i = first; i != kNone; i = next[i]) lists.Push(sequences[i]);
    lists.Close();
  }
  return lists;
}

}  // namespace batchplan
