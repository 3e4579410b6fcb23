// Lower bounds on every placement of a mini-batch, and the time of an ideal step.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_BOUNDS_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_BOUNDS_H_

#include <cstdint>
#include <limits>
#include <span>

#include "server/planner/packing/bins.h"
#include "server/planner/pass/mini_batch_items.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

// The fewest micro-batches on each rank of any plan, in which all ranks have equally many, as the
// pass's count rule allows. By the lower bounds of bin packing in the packed layout, by
// FewestPadded (fill_bins.h) in the padded one. `possible` is a number known to suffice; no bound
// above it is looked for. O(n log n).
//
// Of a mini-batch, and of the items of a packed one. For groups of one size.
uint64_t FewestMicrobatchesPerRank(const Pass& pass, const MiniBatchItems& mini_batch,
                                   uint64_t possible = std::numeric_limits<uint64_t>::max());

uint64_t FewestPackedPerRank(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                             const CountRule& counts,
                             uint64_t possible = std::numeric_limits<uint64_t>::max());

struct MiniBatchBounds {
  // The fewest slots, each of at least Pass::fewest_groups micro-batches.
  uint64_t slots = 0;
  // The slots of an ideal step. On ranks: the fewest. Of a pool: as many as the tokens fill,
  // aligned as for the smallest size.
  uint64_t ideal_slots = 0;
  // On ranks: LockstepBound of the items or AccumulatedBound of the units, with the fixed cost of
  // the fewest slots. On given ranks: LockstepBoundOfRanks, or the costliest rank's sum. If
  // micro-batches or ranks have a least number of sequences, what that proves (count_bound.h). With
  // a pipeline: StepClock::Bound of that much work. Of a pool: ContextBound.
  Cost step_time = 0;
};

// Bounds on every placement of the mini-batch under the pass's constraints. `placement` is one of
// them. On ranks, the bounds that it has proven are not worked out again, and no bound on slots
// above its number is looked for. On ranks in lockstep the bound is looser if the allowance does
// not afford a better one. Useless once a stop is requested. O(n log n) for each size.
MiniBatchBounds BoundsOf(const Pass& pass, std::span<const SequenceIndex> mini_batch,
                         const Placement& placement, const Allowance& allowance = {});

// The same without what the least numbers of sequences prove. For estimates: of most batches these
// prove nothing.
MiniBatchBounds BoundsWithoutCounts(const Pass& pass, std::span<const SequenceIndex> mini_batch,
                                    const Placement& placement, const Allowance& allowance = {});

// The time, in units of the cost model, of a step that divides `computation` evenly among all ranks
// and has the fixed cost of this many slots on each. `computation` is the cost of the sequences
// without exchange, in the scale of pass.computation().
double IdealStepTime(const Pass& pass, double computation, uint64_t slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_BOUNDS_H_
