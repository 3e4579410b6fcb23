// Splits of several ranks' own items into padded micro-batches, for ranks that meet after every
// slot.

#ifndef BATCHPLAN_SERVER_PLANNER_PADDED_RANK_SPLITS_H_
#define BATCHPLAN_SERVER_PLANNER_PADDED_RANK_SPLITS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/padded/splits.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// The items of one rank, the costs of a sequence of each (splits.h), and how they are split.
struct RankSplit {
  PaddedItems items;
  std::span<const uint64_t> costs;
  Cuts cuts = {0};
};

// The sum over slots of the costliest run, where slot s has the run of each rank that is the s-th
// by descending cost: no other order of the ranks' runs has a lower one. A rank with fewer runs has
// none in the last slots.
uint64_t LockstepCost(std::span<const RankSplit> ranks);

// Moves the cuts of one rank after the other, one at a time and by strides that shrink to one item,
// while that lowers LockstepCost; the numbers of runs stay and the limits are kept. At most `steps`
// runs are looked at, or what the allowance affords; none once a stop is requested. O(n + steps).
void ImproveRankSlots(const PaddedLimits& limits, uint64_t steps, std::span<RankSplit> ranks,
                      const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_RANK_SPLITS_H_
