// The balanced solver for packed micro-batches of ranks that meet after every slot: the number of
// slots, and their contents.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_LOCKSTEP_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_LOCKSTEP_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "server/planner/balance/lockstep_findings.h"
#include "server/planner/packing/bins.h"
#include "server/planner/pass/count_rule.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

struct LockstepSlotsTask {
  // Loads are costs, with a total below 2^62.
  PackItems items;
  BinLimits limits;
  uint32_t ranks = 1;
  // The rule for a rank's micro-batches.
  CountRule counts;
  uint64_t per_microbatch = 0;
  // See LockstepTask.
  bool equal_counts = false;
  Effort effort = Effort::kDefault;
  // If set, called with each number of slots that is solved, its bins and its step time.
  std::function<void(uint64_t slots, const Bins& bins, uint64_t step_time)> solved = {};
  // See LockstepTask.
  LockstepFindings* findings = nullptr;
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

// A lower bound on the slots of any plan of these items; if they are few, at most what a greedy
// packing needs.
uint64_t FewestSlots(const PackItems& items, const BinLimits& limits, uint32_t ranks,
                     const CountRule& counts);

// As few slots as the counts allow and are found, or more if each shortens the step by a
// thousandth. Starts at the lower bound on bins. If bins are too tight for longest processing time
// first to fill them (balance/lockstep.h), a packer finds the number.
//
// Nothing if there are fewer items than micro-batches needed, if no slots are found, or once a stop
// is requested.
std::optional<LockstepSlots> SolveLockstep(const LockstepSlotsTask& task,
                                           const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_LOCKSTEP_H_
