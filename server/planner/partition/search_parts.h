// Small partitions, exhaustively.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_SEARCH_PARTS_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_SEARCH_PARTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/allowance.h"

namespace batchplan {

// How many loads a part may have.
struct LoadsEach {
  uint64_t least = 0;
  uint64_t most = 0;
};

// The partition that has the least largest sum of those found within `steps` placements: a
// depth-first search in descending order of the loads, each into the lightest part first, which
// leaves a branch where the largest sum can't fall below that of `part_of`, the best so far, and
// ends at `bound` (R. E. Korf, "A complete anytime algorithm for number partitioning", 1998).
// `part_of` itself where nothing better is found; the best there is if the steps suffice, as they
// do for a dozen loads. Ends early with the allowance. Needs a total below 2^62.
// Deterministic; O(steps * parts log parts).
std::vector<uint32_t> SearchParts(std::span<const uint64_t> loads, std::vector<uint32_t> part_of,
                                  uint32_t parts, LoadsEach each, uint64_t bound, uint64_t steps,
                                  const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_SEARCH_PARTS_H_
