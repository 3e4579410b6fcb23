// The order of the "decreasing" packers.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_DECREASING_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_DECREASING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/length_counts.h"

namespace batchplan {

// Items by (length, position), both descending: among equals the higher position goes first. O(n):
// a counting sort where lengths are no larger than some times their number, a radix sort otherwise.
std::vector<uint32_t> DecreasingOrder(std::span<const uint32_t> lengths);

// Items in decreasing order, and their different lengths, longest first.
struct DecreasingItems {
  std::vector<uint32_t> order;
  std::vector<LengthCount> lengths;
};

// DecreasingOrder with the lengths, which fall out of it.
DecreasingItems SortDecreasing(std::span<const uint32_t> lengths);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_DECREASING_H_
