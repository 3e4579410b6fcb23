#include "server/planner/bounds.h"

#include <algorithm>
#include <limits>

#include "server/planner/assign/fewest_microbatches.h"
#include "server/planner/balance/step_time_bound.h"
#include "server/planner/items.h"
#include "server/planner/sequence_lists.h"

namespace batchplan {
namespace {

// Items whose lengths are the sums of their sequences in either layout: a padded micro-batch takes
// as many tokens as its sequences have, or more.
Items SummedItems(const PassInstance& pass, std::span<const SequenceIndex> mini_batch) {
  Items items = pass.ItemsOf(mini_batch);
  if (pass.options().layout == Layout::kPacked) return items;
  for (uint32_t item = 0; item < items.size(); ++item) {
    items.lengths[item] = 0;
    for (SequenceIndex sequence : items.sequences[item]) {
      items.lengths[item] += pass.aligned()[sequence.value()];
    }
  }
  return items;
}

BinLimits LimitsOf(const PassInstance& pass) {
  if (pass.options().layout == Layout::kPacked) return pass.bin_limits();
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  return {.capacity = static_cast<uint32_t>(std::min(pass.padded_limits().tokens, kMost)),
          .max_sequences = static_cast<uint32_t>(std::min(pass.padded_limits().sequences, kMost))};
}

// Without the fixed costs.
Cost SequencesBound(const PassInstance& pass, std::span<const SequenceIndex> mini_batch,
                    Synchronization synchronization, Cost lockstep_proven) {
  Cost bound = lockstep_proven;
  if (synchronization == Synchronization::kLockstep) {
    if (bound == 0) {
      const Items items = SummedItems(pass, mini_batch);
      bound = LockstepBound(items.ForPacking(), LimitsOf(pass), pass.ranks());
    }
    // At least AccumulatedBound of the same items.
    if (!pass.groups_keep_rank() || pass.groups_keep_microbatch()) return bound;
  }
  // Every rank takes as long as its own micro-batches, in lockstep too.
  const Items units = pass.ItemsFrom(pass.UnitLists(mini_batch));
  return std::max(bound, AccumulatedBound(units.ForPacking(), pass.ranks()));
}

}  // namespace

MiniBatchBounds BoundsOf(const PassInstance& pass, std::span<const SequenceIndex> mini_batch,
                         Synchronization synchronization, const Placement& placement) {
  const Proven& proven = placement.proven;
  const uint64_t fewest =
      std::max(FewestMicrobatchesPerRank(pass, mini_batch, placement.slots),
               pass.counts().RoundUp((proven.microbatches + pass.ranks() - 1) / pass.ranks()));
  return {.microbatches = fewest * pass.ranks(),
          .step_time = SequencesBound(pass, mini_batch, synchronization, proven.lockstep_time) +
                       pass.cost().OfMicrobatch() * fewest};
}

}  // namespace batchplan
