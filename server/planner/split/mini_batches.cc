#include "server/planner/split/mini_batches.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/planner/packing/kinds.h"
#include "server/planner/packing/orders.h"
#include "server/planner/request/seeds.h"

namespace batchplan {
namespace {

// The groups, or if there are none the sequences, by ascending length; a group's length is its
// longest.
std::vector<uint32_t> AscendingOrder(const Manifest& manifest, const Groups& groups) {
  std::vector<uint32_t> lengths(manifest.lengths.begin(), manifest.lengths.end());
  if (!groups.empty()) {
    lengths.assign(groups.size(), 0);
    for (uint32_t i = 0; i < manifest.lengths.size(); ++i) {
      uint32_t& longest = lengths[groups[SequenceIndex(i)]];
      longest = std::max(longest, manifest.lengths[i]);
    }
  }
  std::vector<uint32_t> order = DecreasingOrder(lengths);
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

size_t MiniBatchesOf(const MiniBatching& options, size_t sequences, size_t groups) {
  const size_t each = options.group_count > 0 ? options.group_count : options.size;
  if (each == 0) return 1;
  const size_t all = options.group_count > 0 ? groups : sequences;
  const bool rest = options.last == LastMiniBatch::kSmaller && all % each != 0;
  return std::max<size_t>(1, all / each + (rest ? 1 : 0));
}

absl::StatusOr<SequenceLists> SplitIntoMiniBatches(const Manifest& manifest,
                                                   std::span<const uint32_t> planned_lengths,
                                                   const Groups& groups,
                                                   const MiniBatching& options) {
  const bool counts_groups = options.group_count > 0;
  const size_t sequences = planned_lengths.size();
  // Groups or sequences, as mini-batches count.
  const size_t total = counts_groups ? groups.size() : sequences;
  const size_t size = counts_groups ? options.group_count : options.size > 0 ? options.size : total;
  if (size == 0 || (total % size != 0 && options.last == LastMiniBatch::kExact)) {
    return absl::InvalidArgumentError(
        absl::StrCat(counts_groups ? "mini_batches.group_count is " : "mini_batches.size is ", size,
                     ", which does not divide the manifest's ", total,
                     counts_groups ? " groups" : " sequences"));
  }
  // The groups, which move whole; single sequences need no lists.
  SequenceLists together;
  if (!groups.empty()) {
    std::vector<SequenceIndex> all;
    all.reserve(sequences);
    for (uint32_t i = 0; i < sequences; ++i) all.emplace_back(i);
    together = groups.Together(all);
  }
  std::vector<uint32_t> order(groups.empty() ? sequences : together.size());
  std::iota(order.begin(), order.end(), 0u);
  if (options.order == Order::kShuffled) {
    order = ShuffledOrder(static_cast<uint32_t>(order.size()), ManifestSeed(options.seed));
  } else if (options.order == Order::kStratified) {
    order = AscendingOrder(manifest, groups);
  }

  SequenceLists mini_batches;
  mini_batches.Reserve((total + size - 1) / size, sequences);
  size_t taken = 0;  // of the mini-batch under way, dropped ones included
  size_t planned = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const SequenceIndex alone(order[i]);
    const std::span<const SequenceIndex> members =
        groups.empty() ? std::span(&alone, 1) : together[order[i]];
    const size_t weight = counts_groups ? 1 : members.size();
    if (weight > size - taken) {
      return absl::InvalidArgumentError(
          absl::StrCat("mini_batches.size is ", size, ", but group ",
                       manifest.group_ids[members.front().value()], " of ", members.size(),
                       " sequences comes where mini-batch ", mini_batches.size(), " has room for ",
                       size - taken, ", and mini_batches.groups keeps it in one mini-batch"));
    }
    taken += weight;
    for (SequenceIndex sequence : members) {
      if (planned_lengths[sequence.value()] == 0) continue;
      mini_batches.Push(sequence);
      ++planned;
    }
    if (taken < size && i + 1 < order.size()) continue;
    if (planned == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("overlong is OVERLONG_POLICY_DROP, which leaves mini-batch ",
                       mini_batches.size(), " without sequences"));
    }
    mini_batches.Close();
    taken = planned = 0;
  }
  return mini_batches;
}

}  // namespace batchplan
