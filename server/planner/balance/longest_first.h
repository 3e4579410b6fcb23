// Longest processing time first, the greedy rule of multiway partitioning: the next longest load to
// the part that has least. R. L. Graham, "Bounds on multiprocessing timing anomalies" (1969).

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_LONGEST_FIRST_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_LONGEST_FIRST_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "server/planner/balance/bin_filling.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// The part, 0 .. parts - 1, of each load. Loads go by (load, index), both descending, each to the
// part with the least (sum, loads, number) among those with fewer than `most_each` loads; the last
// loads go to parts that would otherwise have fewer than `least_each`. If neither limit binds, the
// largest sum is at most 4/3 - 1/(3 parts) of the least possible. Needs parts * most_each >=
// loads.size() >= parts * least_each, and a total below 2^64. Deterministic; O(n log parts). Once a
// stop is requested it ends soon with a useless partition.
std::vector<uint32_t> LongestFirst(std::span<const uint64_t> loads, uint32_t parts,
                                   uint64_t most_each = std::numeric_limits<uint64_t>::max(),
                                   uint64_t least_each = 0, const Allowance& allowance = {});

// The part of each load, with equally many loads in every part, within one where the parts do not
// divide them. Dealt layer by layer: a layer is the next `parts` loads of `descending_order`, and
// its heaviest goes to the part with the least (sum, number) so far, and so on. The layers'
// differences cancel out: no two sums differ by more than the largest load. Needs a total below
// 2^64. O(n log parts).
std::vector<uint32_t> DealLayers(std::span<const uint64_t> loads,
                                 std::span<const uint32_t> descending_order, uint32_t parts);

// Longest first under the limits of bins: each of `positions`, ascending, into the least loaded of
// the bins [begin, end) that holds it. A bin is loaded with its cost plus `per_token` for each
// token. A bin that has room for an item's tokens but not for its sequences gets nothing more.
// Returns the positions that no bin held. If that is none, and there are at least as many positions
// as bins, no bin is empty at the end. Once a stop is requested it ends soon with a useless
// filling. O(n log n).
std::vector<uint32_t> FillLongestFirst(std::span<const uint32_t> positions, uint32_t begin,
                                       uint32_t end, uint64_t per_token, Filling& filling,
                                       const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_LONGEST_FIRST_H_
