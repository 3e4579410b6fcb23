// The largest differencing method: loads divided into parts of even sum, and bins packed by it.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_KARMARKAR_KARP_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_KARMARKAR_KARP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/bins.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// The part, 0 .. parts - 1, of each load, such that the parts' sums are close: N. Karmarkar and
// R. M. Karp, "The differencing method of set partitioning" (1982), for many parts as R. E. Korf
// states it (2009). Parts are numbered by descending sum. No part is empty if there are at least as
// many loads as parts. Needs parts >= 1 and a total below 2^64. Deterministic; O(n log n) time
// whatever the number of parts, O(n) memory. Once a stop is requested it ends soon with a useless
// partition.
std::vector<uint32_t> KarmarkarKarp(std::span<const uint64_t> loads, uint32_t parts,
                                    const Allowance& allowance = {});

// KarmarkarKarp of loads whose DescendingOrder is known.
std::vector<uint32_t> KarmarkarKarp(std::span<const uint64_t> loads,
                                    std::span<const uint32_t> descending, uint32_t parts,
                                    const Allowance& allowance = {});

// KarmarkarKarp with equally many loads in every part, within one where the parts do not divide
// them.
std::vector<uint32_t> KarmarkarKarpEqual(std::span<const uint64_t> loads, uint32_t parts,
                                         const Allowance& allowance = {});

// A packer: bins of even load instead of as few as can be. Divides the items into k bins of even
// load. k begins at the lower bound, or at `at_least` if that is more, and is at most the number of
// items. The bounds by tokens, by counts and by the sums of limited loads are tried first, better
// ones only if that many bins do not suffice. The differencing method knows neither capacity nor
// limits, so the lightest items of an overfull bin then move to the least loaded bin with room, or
// if loads are limited, to any bin with room. If there is none, k grows, by a thirty-second and
// then by ever more, and the items are divided anew. O(n log n) a division. Once a stop is
// requested it ends soon with useless bins.
Bins PackKarmarkarKarp(const PackItems& items, const BinLimits& limits, size_t at_least = 1,
                       const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_KARMARKAR_KARP_H_
