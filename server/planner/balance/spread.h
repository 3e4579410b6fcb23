// Longest processing time first, under a token budget.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_SPREAD_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_SPREAD_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/allowance.h"
#include "server/planner/balance/filling.h"

namespace batchplan {

// Each of `positions`, ascending, into the least loaded of the bins [begin, end) that holds it: R.
// L. Graham's rule (1969) with a capacity. Load is cost plus `per_token` for each token. A bin with
// tokens but not sequences enough for an item gets nothing more. Returns the positions that no bin
// held. No bin stays empty that starts so, if there are as many positions as bins and none is left
// over. Once a stop is requested it ends soon, with a filling that is of no use. O(n log n).
std::vector<uint32_t> Spread(std::span<const uint32_t> positions, uint32_t begin, uint32_t end,
                             uint64_t per_token, Filling& filling, const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_SPREAD_H_
