// Where a mini-batch's sequences run: on which ranks, in which micro-batch, in which slot.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_PLACEMENT_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/planner/packing/bins.h"
#include "server/planner/pass/pass.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/decision.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Bounds that the search for a placement has proven for every placement of its sequences; 0 if
// none.
struct Proven {
  // The fewest micro-batches, on all ranks together.
  uint64_t microbatches = 0;
  // LockstepBound of the sequences' costs.
  Cost lockstep_time = 0;
};

// The micro-batches of one pass over one mini-batch, in the order of the plan: rank after rank, or,
// where groups differ in size, slot after slot.
struct Placement {
  // Slot s of rank r is list r * slots + s, and a rank's empty micro-batches are its last. Where
  // sizes differ, the groups of a slot stand along the pool, and their ranks add up to it.
  SequenceLists microbatches;
  // By micro-batch: tokens of the packed row without its tail, or the padded width; 0 if empty.
  std::vector<uint32_t> widths;
  // By micro-batch, the ranks of its group; empty where sizes don't differ.
  std::vector<uint32_t> context_sizes;
  uint32_t slots = 0;
  Proven proven;
  // Whether slots can only change places whole, on all ranks alike: because ranks have the same
  // widths, or because the step depends on which micro-batches share a slot. False if sizes differ.
  bool whole_slots = false;
  // The method that made it (decision.h, or a preset's name), and the numbers of slots tried
  // besides.
  absl::string_view method = kBalancedMethod;
  TriedSlots tried = {};

  // Only where sizes don't differ.
  size_t ranks() const { return slots == 0 ? 0 : microbatches.size() / slots; }
};

// Receives the placements of a request one by one, so that no more than one mini-batch's is held.
class PlacementSink {
 public:
  virtual ~PlacementSink() = default;
  // `pass` is the pass's number. The mini-batches of a pass come in their order; a pass that
  // ignores mini-batches has number 0 alone.
  virtual void Add(size_t pass, size_t mini_batch, Placement placement) = 0;
  // Forgets all placements so far; others will come instead.
  virtual void Clear() = 0;
};

// The placements of several passes over one mini-batch, which all keep to the same shares.
struct MiniBatchPlacement {
  // The sequences of each rank, in the mini-batch's order.
  SequenceLists shares;
  // The leading pass comes first. Passes that are not placed yet are missing at the end.
  std::vector<Placement> passes;

  Placement& lead() { return passes.front(); }
  const Placement& lead() const { return passes.front(); }
};

// If sequences share prefixes, brings each micro-batch into depth-first order, in which its row is
// laid, and sets its width to that of the row.
void LayRows(const Pass& pass, Placement& placement);

// The sequences of each rank where list l goes to rank rank_of[l], in the order of the lists.
SequenceLists SharesOf(const SequenceLists& lists, std::span<const uint32_t> rank_of,
                       uint32_t ranks);

// The sequences of each rank where the manifest gives the ranks, in the order of `sequences`.
SequenceLists GivenShares(const Pass& pass, std::span<const SequenceIndex> sequences);

// The leading pass's placement of bins of items: slot s of rank r is bin bin_at[r * slots + s], or
// empty where there is no such bin. Its width is the sum of its items' widths, in the padded layout
// the largest of them, and with shared prefixes as in LayRows.
MiniBatchPlacement PlacementOf(const Pass& pass, const Items& items, const Bins& bins,
                               std::span<const uint32_t> bin_at);

// The placement of bins of each rank's own items: slot s of rank r is bin s of bins[r], or empty
// where there is no such bin. Widths as for PlacementOf.
Placement PlacementOfRanks(const Pass& pass, std::span<const Items* const> items,
                           std::span<const Bins* const> bins, size_t slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_PLACEMENT_H_
