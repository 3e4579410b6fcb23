// The order that most partitions start from.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_DESCENDING_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_DESCENDING_H_

#include <cstdint>
#include <span>
#include <vector>

namespace batchplan {

// The positions of `loads` by descending load, of equal ones the lower position first. A radix sort
// where load and position fit into 64 bits together, so O(n) for each eleven bits of the loads.
std::vector<uint32_t> DescendingOrder(std::span<const uint64_t> loads);

// The same, but of equal loads the higher position first.
std::vector<uint32_t> DescendingLaterFirst(std::span<const uint64_t> loads);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_DESCENDING_H_
