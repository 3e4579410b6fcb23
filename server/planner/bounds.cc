#include "server/planner/bounds.h"

#include <algorithm>
#include <limits>

#include "server/planner/assign/fewest_microbatches.h"
#include "server/planner/balance/step_time_bound.h"
#include "server/planner/items.h"
#include "server/planner/sequence_lists.h"

namespace batchplan {
namespace {

// Blocks by the sums of their sequences in either layout: a padded micro-batch takes as many tokens
// as its sequences have, or more.
Items SumsOf(const PassInstance& pass, const SequenceLists& blocks) {
  Items items = pass.ItemsOf(blocks);
  if (pass.options().layout == Layout::kPacked) return items;
  for (size_t block = 0; block < blocks.size(); ++block) {
    items.lengths[block] = 0;
    for (SequenceIndex sequence : blocks[block]) {
      items.lengths[block] += pass.aligned()[sequence.value()];
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
      const Items items = SumsOf(pass, pass.MicrobatchBlocks(mini_batch));
      bound = LockstepBound(items.ForPacking(), LimitsOf(pass), pass.ranks());
    }
    // At least AccumulatedBound of the same blocks.
    if (!pass.groups_share_rank() || pass.groups_share_microbatch()) return bound;
  }
  // Every rank takes as long as its own micro-batches, in lockstep too.
  const Items items = pass.ItemsOf(pass.RankBlocks(mini_batch));
  return std::max(bound, AccumulatedBound(items.ForPacking(), pass.ranks()));
}

}  // namespace

MiniBatchBounds BoundsOf(const PassInstance& pass, std::span<const SequenceIndex> mini_batch,
                         Synchronization synchronization, const Assignment& assignment) {
  const Proven& proven = assignment.proven;
  const uint64_t fewest =
      std::max(FewestMicrobatchesPerRank(pass, mini_batch, assignment.slots),
               pass.counts().RoundUp((proven.microbatches + pass.ranks() - 1) / pass.ranks()));
  return {.microbatches = fewest * pass.ranks(),
          .step_time = SequencesBound(pass, mini_batch, synchronization, proven.lockstep_time) +
                       pass.cost().OfMicrobatch() * fewest};
}

}  // namespace batchplan
