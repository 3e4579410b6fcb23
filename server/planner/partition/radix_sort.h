// Sorting numbers that carry their position.

#ifndef BATCHPLAN_SERVER_PLANNER_PARTITION_RADIX_SORT_H_
#define BATCHPLAN_SERVER_PLANNER_PARTITION_RADIX_SORT_H_

#include <cstdint>
#include <vector>

namespace batchplan {

// Sorts `keys` ascending, where their low `sorted_bits` bits, such as positions, already ascend.
// Least significant digit first (D. E. Knuth, "The Art of Computer Programming" 3, 5.2.5): O(n)
// passes over what the keys differ in, and a second array of n keys; std::sort for a few.
void RadixSort(std::vector<uint64_t>& keys, uint32_t sorted_bits);
void RadixSort(std::vector<uint32_t>& keys, uint32_t sorted_bits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PARTITION_RADIX_SORT_H_
