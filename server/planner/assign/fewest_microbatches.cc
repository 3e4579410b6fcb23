#include "server/planner/assign/fewest_microbatches.h"

#include <algorithm>

#include "server/planner/assign/padded_fill.h"
#include "server/planner/packing/lower_bounds.h"

namespace batchplan {

uint64_t FewestMicrobatchesPerRank(const PassInstance& pass,
                                   std::span<const SequenceIndex> mini_batch, uint64_t possible) {
  uint64_t fewest = 0;
  if (pass.options().layout == Layout::kPadded) {
    // Of sequences alone: with groups that stay together there can only be more.
    fewest = DraftPadded(pass, SortedItems(pass.ItemsOf(SequenceLists::Singles(mini_batch))));
  } else {
    // Bins in which `possible` is proven to be the fewest.
    const uint64_t below = std::max<uint64_t>(1, pass.counts().LeastThatNeeds(possible)) - 1;
    const uint64_t most = std::numeric_limits<uint64_t>::max();
    const uint64_t enough = below < most / pass.ranks() ? below * pass.ranks() + 1 : most;
    const Items items = pass.ItemsOf(pass.MicrobatchBlocks(mini_batch));
    fewest = LowerBoundBins(items.ForPacking(), pass.bin_limits(), enough);
  }
  return pass.counts().RoundUp((fewest + pass.ranks() - 1) / pass.ranks());
}

}  // namespace batchplan
