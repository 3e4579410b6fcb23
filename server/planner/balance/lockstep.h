// The balanced solver for ranks that meet after every micro-batch.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_LOCKSTEP_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_LOCKSTEP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "server/planner/effort.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

// Bins for every rank and slot: slot s of rank r is bin r * slots + s.
struct BalancedBins {
  Bins bins;
  // The sum over slots of the costliest bin; the fixed cost of a micro-batch is left out.
  uint64_t step_time = 0;
};

// Puts items, whose costs are their loads (with a total below 2^62), into exactly ranks * slots
// bins within the limits, none of them empty, such that the step time is low; stops at `enough`.
// There are at least as many items as bins. Nothing if no such packing is found.
//
// Slots that long items dictate are filled first, the rest by longest processing time first under
// the token budget; what is left over is squeezed in by exchanges, or all is packed as tightly as
// can be; then a local search evens out what runs at the same time. Takes O(n log n) time and
// memory O(n); the search a number of steps that grows with the items and the effort.
std::optional<BalancedBins> BalanceLockstep(const PackItems& items, const BinLimits& limits,
                                            uint32_t ranks, uint32_t slots, uint64_t enough,
                                            Effort effort);

// The same with the rank of every item given: rank_of[i], and at least `slots` items for each rank.
std::optional<BalancedBins> BalanceWithinRanks(const PackItems& items,
                                               std::span<const uint32_t> rank_of,
                                               const BinLimits& limits, uint32_t ranks,
                                               uint32_t slots, uint64_t enough, Effort effort);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_LOCKSTEP_H_
