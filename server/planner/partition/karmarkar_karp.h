// The largest differencing method for multiway number partitioning.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_KARMARKAR_KARP_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_KARMARKAR_KARP_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/allowance.h"

namespace batchplan {

// The part, 0 .. parts - 1, of each load, such that the parts' sums are close: N. Karmarkar and
// R. M. Karp, "The differencing method of set partitioning" (1982), for many parts as R. E. Korf
// states it (2009). Parts are numbered by descending sum. Every part gets a load if there are as
// many loads as parts. Needs parts >= 1 and a total below 2^64. Deterministic; O(n log n) time
// whatever the number of parts, O(n) memory. Once a stop is requested it ends soon, with a
// partition that is of no use.
std::vector<uint32_t> KarmarkarKarp(std::span<const uint64_t> loads, uint32_t parts,
                                    const Allowance& allowance = {});

// The same of loads whose DescendingOrder is known.
std::vector<uint32_t> KarmarkarKarp(std::span<const uint64_t> loads,
                                    std::span<const uint32_t> descending, uint32_t parts,
                                    const Allowance& allowance = {});

// The same with equally many loads in every part. Needs parts to divide loads.size().
std::vector<uint32_t> KarmarkarKarpEqual(std::span<const uint64_t> loads, uint32_t parts,
                                         const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_KARMARKAR_KARP_H_
