// The order that most partitions start from.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_DESCENDING_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_DESCENDING_H_

#include <cstdint>
#include <span>
#include <vector>

namespace batchplan {

// The positions of `loads` by descending load, of equal ones the lower position first. O(n) where
// there are many, by digits of the loads.
std::vector<uint32_t> DescendingOrder(std::span<const uint64_t> loads);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_DESCENDING_H_
