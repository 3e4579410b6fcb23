// The simplest bin packing, to test fast packers against: the true optimum of small instances, and
// first fit and best fit without an index over bins.
//
// Items are positions in the span of lengths; each length is in 1 .. capacity.

#ifndef BATCHPLAN_TESTS_SUPPORT_BRUTE_FORCE_H_
#define BATCHPLAN_TESTS_SUPPORT_BRUTE_FORCE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace batchplan::testing {

// Bin b has the items bins[b], in the order of placement.
using NaiveBins = std::vector<std::vector<uint32_t>>;

inline constexpr uint32_t kNoItemLimit = std::numeric_limits<uint32_t>::max();

// BruteForceMinBins accepts up to this many items.
inline constexpr size_t kMaxBruteForceItems = 16;

// The fewest bins of `capacity` tokens and `max_items` items that hold all items; 0 for no items.
// Exact, by dynamic programming over subsets: O(3^n) time and O(2^n) memory, which is 0.1 ms for 10
// items and some 50 ms for 16.
uint32_t BruteForceMinBins(std::span<const uint32_t> lengths, uint32_t capacity,
                           uint32_t max_items = kNoItemLimit);

// Takes items by descending (length, position), each into the lowest-numbered bin that holds it.
// O(n * bins).
NaiveBins NaiveFirstFitDecreasing(std::span<const uint32_t> lengths, uint32_t capacity,
                                  uint32_t max_items = kNoItemLimit);

// Takes items by descending (length, position), each into the fullest bin that holds it; of equally
// full bins, the lowest-numbered. O(n * bins).
NaiveBins NaiveBestFitDecreasing(std::span<const uint32_t> lengths, uint32_t capacity,
                                 uint32_t max_items = kNoItemLimit);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_BRUTE_FORCE_H_
