// Overfull micro-batches brought back within their limits.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_LEGALIZE_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_LEGALIZE_H_

#include <cstdint>
#include <span>

#include "server/planner/allowance.h"
#include "server/planner/balance/filling.h"

namespace batchplan {

// Places what found no room: into the tightest of the bins [begin, end) that holds it, else into
// the roomiest that may take a sequence more, which then is overfull. Moves and exchanges between
// bins mend that: from the worst overfull bin to those with most room, the smallest change that
// cures it, or else the largest, so that the overflow falls with every step. False if it gets stuck
// or has used `steps` items and bins short of sequences looked at; some bins are then overfull.
bool PlaceLeftOver(std::span<const uint32_t> left_over, uint32_t begin, uint32_t end,
                   uint64_t steps, Filling& filling, const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_LEGALIZE_H_
