// Loads into parts whose sums are as even as they can be made.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_EVEN_PARTS_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_EVEN_PARTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/allowance.h"
#include "server/planner/effort.h"

namespace batchplan {

struct EvenPartsOptions {
  // Equally many loads in every part, which needs parts to divide their number.
  bool equal_counts = false;
  // Loads of every part at least; parts * least_each <= loads.size().
  uint32_t least_each = 0;
  Effort effort = Effort::kDefault;
  // Once it is spent or a stop requested, the searches end early.
  Allowance allowance = {};
};

// The part, 0 .. parts - 1, of each load, so that the largest sum is low: a greedy start (longest
// first, or layers for equal counts), the differencing method where there are few loads, exchanges
// between parts (refine.h), and for a few dozen loads a search (search_parts.h). Ends within
// EvenTolerance of the proven bound (part_bound.h), or earlier if the effort is used up. Needs
// parts >= 1 and a total below 2^62. Deterministic. O(n log parts) and a bounded number of steps.
std::vector<uint32_t> EvenParts(std::span<const uint64_t> loads, uint32_t parts,
                                const EvenPartsOptions& options);

// How far above its bound a sum may be for an effort: 1/2^11 of it, 1/2^16, nothing.
uint64_t EvenTolerance(uint64_t bound, Effort effort);

// Steps of RefineParts that an effort is worth for so many loads.
uint64_t RefineSteps(uint64_t loads, Effort effort);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_EVEN_PARTS_H_
