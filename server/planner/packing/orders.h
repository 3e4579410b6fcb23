// The orders that greedy algorithms start from, sorted and shuffled: the same on every machine and
// standard library.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_ORDERS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_ORDERS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace batchplan {

// The numbers of the loads by descending load, of equal ones the lower number first. A radix sort
// where load and number fit into 64 bits together, so O(n) for each eleven bits of the loads.
std::vector<uint32_t> DescendingOrder(std::span<const uint64_t> loads);

// Descending by load, of equal loads the higher number first.
std::vector<uint32_t> DescendingLaterFirst(std::span<const uint64_t> loads);

// Sorts `keys` ascending. Their low `sorted_bits` bits, such as numbers of items, ascend already.
// Least significant digit first (D. E. Knuth, "The Art of Computer Programming" 3, 5.2.5): O(n)
// passes over what the keys differ in, and a second array of n keys; std::sort for a few.
void RadixSort(std::vector<uint64_t>& keys, uint32_t sorted_bits);
void RadixSort(std::vector<uint32_t>& keys, uint32_t sorted_bits);

// The numbers 0 .. count - 1 in an order drawn uniformly by `seed` (Fisher-Yates).
std::vector<uint32_t> ShuffledOrder(uint32_t count, uint64_t seed);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_ORDERS_H_
