// Bin packing into as few bins as can be found, and a bound that tells how few there can be.

#ifndef BATCHPLAN_SERVER_PLANNER_PACKING_FEWEST_BINS_H_
#define BATCHPLAN_SERVER_PLANNER_PACKING_FEWEST_BINS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "server/planner/packing/bins.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

struct FewestBins {
  Bins bins;
  // Proven: no packing has fewer bins. At least LowerBoundBins of the items, whatever is left of
  // the allowance, but never more than `bins` has. If it has as many, the packing is optimal.
  uint64_t bound = 0;
};

// Packs items of lengths in 1 .. limits.capacity and of at most limits.max_sequences sequences.
// Stops as soon as there are at most `enough` bins, or as few as the bound; so with 0 it looks for
// the fewest. It begins with best fit, first fit and modified first fit decreasing, so it never
// needs more bins than the best of them. kFast ends there; other efforts go on with:
//
// - minimum bin slack: bins filled one after the other, each as full as can be;
// - bin completion, which is exact, for up to some hundred items;
// - column generation, for up to some hundred different lengths;
// - column generation again and again for the worst bins of a packing that is too large for it.
//
// The searches know neither the limit on sequences nor limited loads; a packing that breaks one is
// discarded. If loads are limited, first fit and best fit are also tried in other orders
// (LimitedOrders), above kFast also an exhaustive search of bounded length for some dozen items,
// and the searches end with the first packing that breaks a limit.
//
// kThorough begins with all that kDefault does, so it never finds more bins.
//
// Deterministic: work is limited by counted steps. In most real batches a greedy packing meets the
// bound, and nothing else is done. Otherwise, for up to some thousands of items: with kDefault some
// 10 to 20 ms, but up to some 150 ms for up to 256 different lengths that are hard to pack; with
// kThorough some 1 to 2 s. More items add the time of three greedy packings and three of minimum
// bin slack.
//
// Once the allowance is spent or a stop requested it ends soon, with the best packing and bound
// found by then; the greedy packings are always made.
FewestBins PackFewest(const PackItems& items, const BinLimits& limits, uint64_t enough,
                      Effort effort, const Allowance& allowance = {});

// PackFewest with fewer steps, some 10 to 20 ms at most, for callers that pack again and again.
FewestBins PackFewBriefly(const PackItems& items, const BinLimits& limits, uint64_t enough,
                          const Allowance& allowance = {});

// A packing into at most `bins` bins, or nothing if none is found: by PackFewBriefly, and then, for
// up to some dozen items, by an exhaustive search of bounded length that also knows the limits on
// sequences and loads. With kFast only the greedy packers are asked: too little if a request fails
// for want of a packing. Once the allowance is spent or a stop requested it ends soon, most often
// with nothing.
std::optional<Bins> PackInto(const PackItems& items, const BinLimits& limits, size_t bins,
                             Effort effort, const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_FEWEST_BINS_H_
