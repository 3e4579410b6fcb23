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

// The sum over slots of the costliest run, where slot s has the s-th costliest run of each rank: no
// other order of the ranks' runs has a lower sum. A rank with fewer runs has none in the last
// slots.
uint64_t LockstepCost(std::span<const RankSplit> ranks);

// Moves the cuts of one rank after the other, one at a time and by strides that shrink to one item,
// while that lowers LockstepCost. Keeps the limits and the numbers of runs. Looks at `steps` runs
// at most, or as many as the allowance affords; at none once a stop is requested. O(n + steps).
void ImproveRankSlots(const PaddedLimits& limits, uint64_t steps, std::span<RankSplit> ranks,
                      const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_RANK_SPLITS_H_
