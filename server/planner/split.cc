#include "server/planner/split.h"

#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/planner/packing/orders.h"
#include "server/planner/seeds.h"

namespace batchplan {

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
  std::vector<SequenceIndex> sequences;
  sequences.reserve(total);
  for (uint32_t i = 0; i < total; ++i) sequences.emplace_back(i);
  const SequenceLists blocks = groups.Together(sequences);
  std::vector<uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  if (options.order == Order::kShuffled) {
    order = ShuffledOrder(static_cast<uint32_t>(blocks.size()), ManifestSeed(options.seed));
  }

  SequenceLists mini_batches;
  mini_batches.Reserve(total / size, total);
  size_t taken = 0;  // of the mini-batch under way, dropped ones included
  size_t planned = 0;
  for (uint32_t block : order) {
    const std::span<const SequenceIndex> members = blocks[block];
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
