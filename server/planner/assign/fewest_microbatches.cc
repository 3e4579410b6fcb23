#include "server/planner/assign/fewest_microbatches.h"

#include <algorithm>

#include "server/planner/assign/padded_fill.h"
#include "server/planner/packing/lower_bounds.h"

namespace batchplan {
namespace {

// Of so many micro-batches in all, what each rank has then.
uint64_t PerRank(const PassInstance& pass, uint64_t microbatches) {
  return pass.counts().RoundUp((microbatches + pass.ranks() - 1) / pass.ranks());
}

}  // namespace

uint64_t FewestMicrobatchesPerRank(const PassInstance& pass,
                                   std::span<const SequenceIndex> mini_batch, uint64_t possible) {
  if (pass.options().layout == Layout::kPacked) {
    const Items items = pass.ItemsOf(mini_batch);
    return FewestPackedPerRank(pass, items.ForPacking(), possible);
  }
  // Of sequences alone: with groups that stay together there can only be more.
  const SortedItems items(pass.ItemsFrom(SequenceLists::Singles(mini_batch)));
  return PerRank(pass, DraftPadded(pass, items));
}

uint64_t FewestPackedPerRank(const PassInstance& pass, const PackItems& items, uint64_t possible) {
  // A rank needs `possible` as soon as all together need more than this.
  const uint64_t below = std::max<uint64_t>(1, pass.counts().LeastThatNeeds(possible)) - 1;
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const uint64_t enough = below < kMost / pass.ranks() ? below * pass.ranks() + 1 : kMost;
  return PerRank(pass, LowerBoundBins(items, pass.bin_limits(), enough));
}

}  // namespace batchplan
