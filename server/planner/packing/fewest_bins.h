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
  // No packing has fewer bins; proven. At least LowerBoundBins of the items, whatever is left of
  // the allowance, or as many as `bins` has. The packing is optimal if it has as many.
  uint64_t bound = 0;
};

// Packs items of lengths in 1 .. limits.capacity and of at most limits.max_sequences sequences.
// Stops as soon as there are at most `enough` bins, or as few as the bound; so with 0 it looks for
// the fewest. Never more bins than the best of best fit, first fit and modified first fit
// decreasing, with which it begins. kFast ends there; other efforts go on with:
//
// - minimum bin slack: bins filled one after the other, each as full as can be;
// - bin completion, which is exact, for up to some hundred items;
// - column generation, for up to some hundred different lengths;
// - column generation again and again for the worst bins of a packing that is too large for it.
//
// The searches ignore the limit on sequences, and limited loads. If one matters, what they find
// counts only if it keeps the limit. Where loads are limited, first fit and best fit are tried in
// other orders too (LimitedOrders) and, by efforts other than kFast, an exhaustive search of
// bounded length for some dozen items; the searches end with the first packing that breaks a limit.
//
// kThorough begins with all that kDefault does, so it never finds more bins.
//
// Deterministic: work is limited by counted steps. Where a greedy packing has as few bins as the
// bound, as in most real batches, that is all a call takes. Otherwise some 10 to 20 ms with
// kDefault, but up to some 150 ms for up to 256 different lengths that are hard to pack, and some
// 1 to 2 s with kThorough, for up to some thousands of items; with more, as much more as three
// greedy packings and three of minimum bin slack take.
//
// Once the allowance is spent or a stop requested it ends soon, with the best packing and the bound
// found by then; the greedy packings are made whatever is left.
FewestBins PackFewest(const PackItems& items, const BinLimits& limits, uint64_t enough,
                      Effort effort, const Allowance& allowance = {});

// PackFewest with fewer steps, some 10 to 20 ms at most, for callers that pack again and again.
FewestBins PackFewBriefly(const PackItems& items, const BinLimits& limits, uint64_t enough,
                          const Allowance& allowance = {});

// A packing into at most `bins` bins, or nothing if none is found: PackFewBriefly, so in some 10 to
// 20 ms at most for up to some thousands of items, then, for up to some dozen items, an exhaustive
// search of bounded length that knows the limits on sequences and loads too. With kFast only the
// greedy packers are asked, which is too little where a request fails for want of a packing. Once
// the allowance is spent or a stop requested it ends soon, most often with nothing.
std::optional<Bins> PackInto(const PackItems& items, const BinLimits& limits, size_t bins,
                             Effort effort, const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PACKING_FEWEST_BINS_H_
