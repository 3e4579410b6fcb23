// The order of the "decreasing" packers.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_DECREASING_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_DECREASING_H_

#include <cstdint>
#include <span>
#include <vector>

namespace batchplan {

// Items by (length, position), both descending: among equals the higher position goes first.
std::vector<uint32_t> DecreasingOrder(std::span<const uint32_t> lengths);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_DECREASING_H_
