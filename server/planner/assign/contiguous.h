// Contiguous sharding: each rank takes one run of the mini-batch's order.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_CONTIGUOUS_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_CONTIGUOUS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace batchplan {

// Cuts loads into `runs` non-empty runs so that the largest sum of a run is the least possible, by
// binary search on that sum. Returns runs + 1 offsets. Needs 1 <= runs <= loads.size() and a total
// below 2^63. O(n log total).
std::vector<size_t> CutIntoRuns(std::span<const uint64_t> loads, size_t runs);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_CONTIGUOUS_H_
