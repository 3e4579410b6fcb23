// Micro-batches to ranks and slots.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_DEAL_BINS_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_DEAL_BINS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace batchplan {

// Slot s of rank r runs bin result[r * slots + s], bins being numbered as `loads` are: sorted by
// load, each run of `ranks` bins is one slot, so that those which run at the same time are as alike
// as can be, and within a slot the heaviest goes to the rank that has had least. Numbers from
// loads.size() on, at most ranks * slots, stand for bins that are empty. O(bins log bins).
std::vector<uint32_t> DealBins(std::span<const uint64_t> loads, uint32_t ranks, size_t slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_DEAL_BINS_H_
