// Padded micro-batches in slots: for lockstep synchronization, ranks meet after every slot.

#ifndef BATCHPLAN_SERVER_PLANNER_PADDED_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_PADDED_SLOTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/allowance.h"
#include "server/planner/padded/padded_items.h"

namespace batchplan {

// The sum over the slots of their costliest runs, where the costliest `ranks` runs share the first
// slot, and so on: no other division into slots has a lower one. `ranks` divides the number of
// runs.
uint64_t LockstepCost(std::span<const uint64_t> run_costs, uint32_t ranks);

// Moves the cuts one at a time, by strides that shrink to one item, while that lowers LockstepCost
// (level_split.h says what `costs` is); the number of runs stays and the limits are kept.
// LevelSplit is the better start where slots are few, OptimalSplit often where they are more; the
// better one of both results is worth the time. At most `steps` runs are looked at, or what the
// allowance affords; none once a stop is requested. O(n + steps).
Cuts ImproveSlots(const PaddedItems& items, std::span<const uint64_t> costs,
                  const PaddedLimits& limits, uint32_t ranks, Cuts cuts, uint64_t steps,
                  const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PADDED_SLOTS_H_
