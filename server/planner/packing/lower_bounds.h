// How many bins any packing needs.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_LOWER_BOUNDS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_LOWER_BOUNDS_H_

#include <cstdint>
#include <limits>
#include <span>

#include "server/planner/packing/bins.h"

namespace batchplan {

// ceil(sum of lengths / capacity). O(n).
uint64_t VolumeBound(std::span<const uint32_t> lengths, uint32_t capacity);

// The bound L2 of S. Martello and P. Toth, "Lower bounds and reduction procedures for the bin
// packing problem" (1990): for each threshold K <= C/2, items above C - K stand alone, items above
// C/2 each need a bin of their own, and what items of K .. C/2 exceed of the room beside the latter
// needs more. At least the volume bound, at least 2/3 of the optimum. As long as CountLengths
// takes.
uint64_t MartelloTothL2(std::span<const uint32_t> lengths, uint32_t capacity);

// What the limit on sequences asks for: ceil(sequences / max_sequences), and where items are of
// several sequences the bounds on these as if they were lengths.
uint64_t CountBound(const PackItems& items, const BinLimits& limits);

// The best of these and DualFeasibleBound: valid for any packing of the items, as tight as is to be
// had in milliseconds. The cheapest come first, and the first of `enough` or more is returned: a
// caller that knows a packing has no use for better ones. O(n) for lengths of no extraordinary
// range (see CountLengths).
uint64_t LowerBoundBins(const PackItems& items, const BinLimits& limits,
                        uint64_t enough = std::numeric_limits<uint64_t>::max());

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_LOWER_BOUNDS_H_
