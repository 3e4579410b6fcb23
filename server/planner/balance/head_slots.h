// The slots that long items dictate.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_HEAD_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_HEAD_SLOTS_H_

#include <cstdint>

#include "server/planner/allowance.h"
#include "server/planner/balance/filling.h"
#include "server/planner/packing/index_set.h"

namespace batchplan {

// While the costliest unused item costs more than the mean of the micro-batches that are left, it
// will decide what its slot takes, whatever stands beside it: fills the bins of one slot after the
// other, as close to that cost as the token budget lets them come, so that the least is lost to
// waiting. Several ways to fill a slot are tried and the one that wastes least is kept. Takes the
// items out of `unused`, which holds all positions, and leaves enough of them that no later bin is
// empty.
//
// Returns the number of slots filled, the bins [0, ranks * slots filled) of the empty `filling`.
// O(n log n). Once the allowance is spent or a stop requested, no further slot is begun.
uint32_t FillHeadSlots(IndexSet& unused, Filling& filling, const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_HEAD_SLOTS_H_
