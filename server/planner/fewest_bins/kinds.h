// An instance as the searches for few bins see it: items of equal length are of one kind, and all
// that counts is how many there are.
//
// The searches give bins of kinds: Bins whose "items" are positions in Kinds::lengths, each as
// often as the bin holds items of that kind.

#ifndef BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_KINDS_H_
#define BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_KINDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/packing/bins.h"

namespace batchplan {

struct Kinds {
  // Longest first, each different, in 1 .. capacity.
  std::vector<uint32_t> lengths;
  // Items of each.
  std::vector<uint32_t> demand;
  uint32_t capacity = 0;

  size_t size() const { return lengths.size(); }
};

Kinds KindsOf(std::span<const uint32_t> lengths, uint32_t capacity);

// The sum of lengths over `demand` items of each kind.
uint64_t TokensIn(const Kinds& kinds, std::span<const uint32_t> demand);

// Bins of items as bins of kinds.
Bins KindsInBins(const Bins& bins, std::span<const uint32_t> lengths, const Kinds& kinds);

// The items behind bins of kinds; of one kind the highest position first.
Bins ItemsInBins(const Bins& bins_of_kinds, std::span<const uint32_t> lengths);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_FEWEST_BINS_KINDS_H_
