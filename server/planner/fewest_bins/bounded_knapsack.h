// The bounded knapsack: what a bin is best filled with, where every kind of item has a value.

#ifndef BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_BOUNDED_KNAPSACK_H_
#define BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_BOUNDED_KNAPSACK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/fewest_bins/kinds.h"

namespace batchplan {

struct KnapsackFill {
  // Kinds, each as often as taken; empty if nothing is worth more than asked.
  std::vector<uint32_t> kinds;
  uint64_t value = 0;
  // No filling is worth more than this, or more than was asked if that is more.
  uint64_t at_most = 0;
};

// The most valuable filling of one bin with at most demand[k] items of kind k, if it is worth more
// than `more_than`. By depth-first branch and bound in the order of value per length (S. Martello,
// P. Toth, "Knapsack Problems", 1990, chapter 3), or, where that takes longer, by dynamic
// programming over the capacity. Either ends within `steps`, which are taken off, or with a filling
// that need not be the best, and `at_most` above its value.
//
// Each value is at most 2^31.
KnapsackFill FillKnapsack(const Kinds& kinds, std::span<const uint32_t> demand,
                          std::span<const uint64_t> values, uint64_t more_than, uint64_t& steps);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_BOUNDED_KNAPSACK_H_
