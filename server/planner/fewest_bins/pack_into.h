// Packing into a number of bins that is given.

#ifndef BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_PACK_INTO_H_
#define BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_PACK_INTO_H_

#include <cstddef>
#include <optional>

#include "server/planner/allowance.h"
#include "server/planner/effort.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

// A packing into at most `bins` bins, or nothing if none is found: PackFewBriefly, so in some 10 to
// 20 ms at most for up to some thousands of items, then, for up to some dozen items, an exhaustive
// search of bounded length that knows the limit on sequences too. With kFast only the greedy
// packers are asked: where a request fails for want of a packing, that is too little. Once the
// allowance is spent or a stop requested it ends soon, most often with nothing.
std::optional<Bins> PackInto(const PackItems& items, const BinLimits& limits, size_t bins,
                             Effort effort, const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_PACK_INTO_H_
