#include "server/planner/split.h"

#include "absl/strings/str_cat.h"
#include "server/planner/packing/shuffle.h"
#include "server/planner/seeds.h"

namespace batchplan {

absl::StatusOr<MiniBatches> SplitIntoMiniBatches(std::span<const uint32_t> planned_lengths,
                                                 const MiniBatching& options) {
  const size_t total = planned_lengths.size();
  const size_t size = options.size == 0 ? total : options.size;
  if (size == 0 || total % size != 0) {
    return absl::InvalidArgumentError(absl::StrCat("mini_batches.size is ", size,
                                                   ", which does not divide the manifest's ", total,
                                                   " sequences"));
  }
  std::vector<uint32_t> shuffled;
  if (options.order == Order::kShuffled) {
    shuffled = ShuffledOrder(static_cast<uint32_t>(total), ManifestSeed(options.seed));
  }

  std::vector<SequenceIndex> sequences;
  sequences.reserve(total);
  std::vector<size_t> offsets = {0};
  for (size_t begin = 0; begin < total; begin += size) {
    for (size_t i = begin; i < begin + size; ++i) {
      const uint32_t sequence = shuffled.empty() ? static_cast<uint32_t>(i) : shuffled[i];
      if (planned_lengths[sequence] > 0) sequences.emplace_back(sequence);
    }
    if (sequences.size() == offsets.back()) {
      return absl::InvalidArgumentError(
          absl::StrCat("overlong is OVERLONG_POLICY_DROP, which leaves mini-batch ",
                       offsets.size() - 1, " without sequences"));
    }
    offsets.push_back(sequences.size());
  }
  return MiniBatches(std::move(sequences), std::move(offsets));
}

}  // namespace batchplan
