// The balanced solver for packed micro-batches of ranks that meet after every slot: how many slots,
// and what is in them.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_LOCKSTEP_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_LOCKSTEP_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "server/planner/packing/bins.h"
#include "server/planner/pass/count_rule.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

struct LockstepSlotsTask {
  // Loads are costs, with a total below 2^62.
  PackItems items;
  BinLimits limits;
  uint32_t ranks = 1;
  // Of the micro-batches of a rank.
  CountRule counts;
  uint64_t per_microbatch = 0;
  // As many sequences on every rank: see LockstepTask.
  bool equal_counts = false;
  Effort effort = Effort::kDefault;
  // Called once a number of slots is solved, with its bins and step time, if it is set.
  std::function<void(uint64_t slots, const Bins& bins, uint64_t step_time)> solved = {};
};

struct LockstepSlots {
  // Slot s of rank r is bin r * slots + s; none is empty.
  Bins bins;
  uint64_t slots = 0;
  // With the fixed costs of the slots.
  uint64_t step_time = 0;
  // LockstepBound of the items.
  uint64_t bound = 0;
  // Bins that every packing has; 0: not looked for.
  uint64_t fewest_bins = 0;
};

// The slots that every plan of these items has at least, up to what a greedy packing has, where the
// items are few.
uint64_t FewestSlots(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                     const CountRule& counts);

// As few slots as the counts allow and are found, or more where that shortens the step by a
// thousandth each. Starts at the lower bound on bins, and lets a packer say where bins have so
// little room to spare that longest processing time first does not fill them
// (balance/lockstep.h).
//
// Nothing where there are fewer items than micro-batches that are needed, where none are found, and
// once a stop is requested.
std::optional<LockstepSlots> SolveLockstep(const LockstepSlotsTask& task,
                                           const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_LOCKSTEP_H_
