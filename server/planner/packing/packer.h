// The greedy packers: lengths and a capacity in, bins out.
//
// Every packer is deterministic, never overfills a bin, leaves none empty, and places every item.
// Time O(n log n) for items of one sequence each (see each packer for others), memory O(n). With
// limited loads each packer keeps to its rule, and a bin holds an item if it has room in every
// respect (limited_packers.h); the ratios to the fewest bins are then not guaranteed.
//
// Searches for as few bins as there can be are in fewest_bins.h.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_PACKER_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_PACKER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "server/planner/packing/bins.h"
#include "server/planner/packing/kinds.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/options.h"

namespace batchplan {

// Packs items of lengths in 1 .. limits.capacity and of at most limits.max_sequences sequences by
// any packer but kBalanced. `seed` is used by kFirstFitShuffle only. Once a stop is requested the
// slowest, kKarmarkarKarp (karmarkar_karp.h), ends soon with useless bins.
Bins Pack(Packer packer, const PackItems& items, const BinLimits& limits, uint64_t seed,
          const Allowance& allowance = {});

// Concatenation: items in the order given, a new bin when the next one would overflow the last.
// O(n). Less than twice the fewest bins, and the manifest's order is kept.
Bins PackConcatenative(const PackItems& items, const BinLimits& limits);

// First fit: each of the items named by `order` (all, or some), in that order, into the
// lowest-numbered bin that still holds it. O(n log n) by a tournament tree over the bins' room; if
// items have several sequences and these are limited, up to O(n) more for an item that finds room
// for its tokens and its sequences in different bins only. In decreasing order: at most 11/9 of the
// fewest bins plus 6/9 (Dosa 2007).
Bins PackFirstFit(std::span<const uint32_t> order, const PackItems& items, const BinLimits& limits);

// Best fit of the items named by `order`, in that order: each into the fullest bin that still holds
// it, of equally full ones the lowest-numbered. O(n log n), and if items have several sequences,
// that for each different number of sequences for which bins have room. In decreasing order as good
// as first fit: at most 11/9 of the fewest bins plus 4.
Bins PackBestFit(std::span<const uint32_t> order, const PackItems& items, const BinLimits& limits);

// PackFirstFit in decreasing order. O(n) and, for every run of alike bins that a length changes, a
// logarithm to base 64; n words of memory beside the result, and four for each change. If items
// have several sequences or limited loads, it calls PackFirstFit.
Bins PackFirstFitDecreasing(const PackItems& items, const BinLimits& limits);

// First fit decreasing of items that are sorted already, one sequence each, and need at most
// `most_bins` bins.
Bins PackFirstFitDecreasing(const DecreasingItems& items, const BinLimits& limits,
                            size_t most_bins);

// PackBestFit in decreasing order. O(n) and, for every run of alike bins that a length changes, the
// logarithm of the number of runs whose room holds the same lengths; memory as
// PackFirstFitDecreasing. If items have several sequences or limited loads, it calls PackBestFit.
Bins PackBestFitDecreasing(const PackItems& items, const BinLimits& limits);

// Modified first fit decreasing: long items get the companions that suit them before the rest is
// packed. D. S. Johnson and M. R. Garey, "A 71/60 theorem for bin packing", Journal of Complexity 1
// (1985): asymptotically at most 71/60 of the fewest bins, where first fit decreasing may need
// 11/9. With capacity C, items are large (> C/2), medium (> C/3), small (> C/6) or tiny.
//
// 1. One bin per large item, longest first.
// 2. Forward over these bins: the largest medium item that fits.
// 3. Backward over those without a medium item: if the two smallest small items fit together, the
//    smallest, then the largest small one that still fits.
// 4. Forward over all: while the smallest item left fits, the largest that fits.
// 5. First fit decreasing of what is left.
//
// O(n log n).
Bins PackModifiedFirstFitDecreasing(const PackItems& items, const BinLimits& limits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_PACKER_H_
