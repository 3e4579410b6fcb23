// Bin packing, apart from everything else: lengths and a capacity in, bins out.
//
// Items are positions in the spans given. Every packer is deterministic, never overfills
// a bin, leaves no bin empty, and places every item. Time O(n log n) for items of
// one sequence each (see each packer for others), memory O(n).

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_PACKER_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_PACKER_H_

#include <cstdint>

#include "server/planner/allowance.h"
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

// Packs items of lengths in 1 .. limits.capacity and of at most limits.max_sequences sequences by
// any packer but kBalanced. `seed` is used by kFirstFitShuffle only. Once a stop is requested the
// slowest, kKarmarkarKarp, ends soon, and what it returns is of no use.
Bins Pack(Packer packer, const PackItems& items, const BinLimits& limits, uint64_t seed,
          const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_PACKER_H_
