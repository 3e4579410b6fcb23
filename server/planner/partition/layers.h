// Loads dealt layer by layer, for parts with equally many loads.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_LAYERS_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_LAYERS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace batchplan {

// The part, 0 .. parts - 1, of each load, with equally many loads in every part: of the loads in
// `descending_order`, each next `parts` are a layer, whose heaviest goes to the part with the least
// (sum, number) so far, and so on. So the layers' differences cancel out: no two sums differ by
// more than the largest load. Needs parts to divide the number of loads and a total below 2^64.
// O(n log parts).
std::vector<uint32_t> DealLayers(std::span<const uint64_t> loads,
                                 std::span<const uint32_t> descending_order, uint32_t parts);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_LAYERS_H_
