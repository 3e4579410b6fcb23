// Bin packing, apart from everything else: lengths and a capacity in, bins out.
//
// Items are positions in the span of lengths given. Every packer is deterministic, never overfills
// a bin, leaves no bin empty, and places every item. Time O(n log n), memory O(n).

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_PACKER_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_PACKER_H_

#include <cstdint>
#include <span>

#include "server/planner/packing/bins.h"

namespace batchplan {

enum class Packer {
  kBalanced,
  kConcatenative,
  kFirstFitDecreasing,
  kFirstFitShuffle,
  kModifiedFirstFitDecreasing,
  kBestFitDecreasing,
  kKarmarkarKarp,
};

// Packs `lengths`, each in 1 .. limits.capacity, by one of the packers that bins alone define: not
// kBalanced, and not kKarmarkarKarp. `seed` is used by kFirstFitShuffle only.
Bins Pack(Packer packer, std::span<const uint32_t> lengths, const BinLimits& limits, uint64_t seed);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_PACKER_H_
