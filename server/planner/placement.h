// Where a mini-batch's sequences run: on which rank, in which micro-batch, in which slot.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACEMENT_H_
#define BATCHPLAN_SERVER_PLANNER_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/cost.h"
#include "server/planner/manifest.h"
#include "server/planner/packing/bins.h"
#include "server/planner/pass.h"

namespace batchplan {

// What was proven of every placement of the same sequences, while this one was looked for; 0 where
// nothing was.
struct Proven {
  // Micro-batches that are needed, all ranks together.
  uint64_t microbatches = 0;
  // LockstepBound of the sequences' costs.
  Cost lockstep_time = 0;
};

// The micro-batches of one pass over one mini-batch.
struct Placement {
  // Slot s of rank r is list r * slots + s. Empty ones are the last of their rank.
  SequenceLists microbatches;
  // Tokens of the packed row without its tail, or the padded width; 0 for an empty micro-batch.
  std::vector<uint32_t> widths;
  uint32_t slots = 0;
  Proven proven;
  // All ranks have the same widths, and keep them if the slots change places.
  bool same_widths = false;

  size_t ranks() const { return slots == 0 ? 0 : microbatches.size() / slots; }
};

// The placements of several passes over one mini-batch, which all keep to the same shares.
struct MiniBatchPlacement {
  // The sequences of each rank, in the mini-batch's order.
  SequenceLists shares;
  // Of as many passes as have been placed, the leading one first.
  std::vector<Placement> passes;

  Placement& lead() { return passes.front(); }
  const Placement& lead() const { return passes.front(); }
};

// The sequences of each rank where list l goes to rank rank_of[l], in the order of the lists.
SequenceLists SharesOf(const SequenceLists& lists, std::span<const uint32_t> rank_of,
                       uint32_t ranks);

// The same of sequences at the ranks that the manifest gives.
SequenceLists GivenShares(const Pass& pass, std::span<const SequenceIndex> sequences);

// The leading pass's placement of bins of items: slot s of rank r is bin bin_at[r * slots + s], or
// empty where there is no such bin. Its width is the sum of its items' widths, in the padded layout
// the largest.
MiniBatchPlacement PlacementOf(const Pass& pass, const Items& items, const Bins& bins,
                               std::span<const uint32_t> bin_at);

// The placement of bins of each rank's own items: slot s of rank r is bin s of bins[r], or empty
// where there is no such bin. Widths as for PlacementOf.
Placement PlacementOfRanks(const Pass& pass, std::span<const Items* const> items,
                           std::span<const Bins* const> bins, size_t slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACEMENT_H_
