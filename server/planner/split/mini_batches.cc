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

// The groups, or without any the sequences, by ascending length, of a group its longest.
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

absl::StatusOr<SequenceLists> SplitIntoMiniBatches(const Manifest& manifest,
                                                   std::span<const uint32_t> planned_lengths,
                                                   const Groups& groups,
                                                   const MiniBatching& options) {
  const size_t total = planned_lengths.size();
  const size_t size = options.size == 0 ? total : options.size;
  if (size == 0 || total % size != 0) {
    return absl::InvalidArgumentError(absl::StrCat("mini_batches.size is ", size,
                                                   ", which does not divide the manifest's ", total,
                                                   " sequences"));
  }
  // What moves as a whole: groups, or sequences, which need no lists of their own.
  SequenceLists together;
  if (!groups.empty()) {
    std::vector<SequenceIndex> sequences;
    sequences.reserve(total);
    for (uint32_t i = 0; i < total; ++i) sequences.emplace_back(i);
    together = groups.Together(sequences);
  }
  std::vector<uint32_t> order(groups.empty() ? total : together.size());
  std::iota(order.begin(), order.end(), 0u);
  if (options.order == Order::kShuffled) {
    order = ShuffledOrder(static_cast<uint32_t>(order.size()), ManifestSeed(options.seed));
  } else if (options.order == Order::kStratified) {
    order = AscendingOrder(manifest, groups);
  }

  SequenceLists mini_batches;
  mini_batches.Reserve(total / size, total);
  size_t taken = 0;  // of the mini-batch under way, dropped ones included
  size_t planned = 0;
  for (uint32_t moved : order) {
    const SequenceIndex alone(moved);
    const std::span<const SequenceIndex> members =
        groups.empty() ? std::span(&alone, 1) : together[moved];
    if (members.size() > size - taken) {
      return absl::InvalidArgumentError(
          absl::StrCat("mini_batches.size is ", size, ", but group ",
                       manifest.group_ids[members.front().value()], " of ", members.size(),
                       " sequences comes where mini-batch ", mini_batches.size(), " has room for ",
                       size - taken, ", and mini_batches.groups keeps it in one mini-batch"));
    }
    taken += members.size();
    for (SequenceIndex sequence : members) {
      if (planned_lengths[sequence.value()] == 0) continue;
      mini_batches.Push(sequence);
      ++planned;
    }
    if (taken < size) continue;
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
