#include "server/planner/assign/fewest_microbatches.h"

#include "server/planner/assign/padded_fill.h"
#include "server/planner/packing/lower_bounds.h"

namespace batchplan {

uint64_t FewestMicrobatchesPerRank(const PassInstance& pass,
                                   std::span<const SequenceIndex> mini_batch) {
  uint64_t fewest = 0;
  if (pass.options().layout == Layout::kPadded) {
    // Of sequences alone: with groups that stay together there can only be more.
    fewest = DraftPadded(pass, SortedItems(pass.ItemsOf(SequenceLists::Singles(mini_batch))));
  } else {
    const Items items = pass.ItemsOf(pass.MicrobatchBlocks(mini_batch));
    fewest = LowerBoundBins(items.ForPacking(), pass.bin_limits());
  }
  return pass.counts().RoundUp((fewest + pass.ranks() - 1) / pass.ranks());
}

}  // namespace batchplan
