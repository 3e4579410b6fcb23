// Bins and ranks: a share of the items packed into the bins of its rank, and bins dealt to ranks.
//
// The words are explained in bin_filling.h; a *share* is the items of one rank.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_RANK_BINS_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_RANK_BINS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/balance/bin_filling.h"
#include "server/planner/packing/bins.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// Raises the number of bins to `target`, at most the number of items, by halving the bin with the
// largest sum of sizes of those with two items or more, of equal ones the last, again and again.
// O(n log n).
Bins HalveLargest(std::span<const uint64_t> sizes, const Bins& bins, size_t target);

// Sizes are the lengths.
Bins HalveLargest(const PackItems& items, const Bins& bins, size_t target);

// Raises the number of bins to `target` by giving each new bin one item, the cheapest by load of
// those that don't leave a bin empty: company for an item that is too costly to have any other. O(n
// log n).
Bins PeelCheapest(const PackItems& items, const Bins& bins, size_t target);

// The items of `share` in exactly `slots` bins of similar numbers of tokens; nothing if such bins
// break a limit. Less even once the allowance is spent or a stop requested. slots <= share.size().
// O(n log n).
std::optional<Bins> EvenBins(const PackItems& items, std::span<const uint32_t> share,
                             const BinLimits& limits, size_t slots, const Allowance& allowance);

// The items of `share` in exactly `slots` bins: EvenBins, or where these break a limit what
// PackInto finds with the effort, its largest bins halved.
std::optional<Bins> PackShare(const PackItems& items, std::span<const uint32_t> share,
                              const BinLimits& limits, size_t slots, Effort effort,
                              const Allowance& allowance);

// Slot s of rank r runs bin result[r * slots + s], bins being numbered as `loads` are: sorted by
// load, every next `ranks` bins are one slot, so that those which run at the same time are as alike
// as can be, and within a slot the heaviest goes to the rank that has had least. Numbers from
// loads.size() on, below ranks * slots, stand for bins that are empty. O(bins log bins).
std::vector<uint32_t> DealBins(std::span<const uint64_t> loads, uint32_t ranks, size_t slots);

// As many sequences on every rank: `filling` with its bins renumbered, slot s of rank r as
// r * slots + s. Each slot's bins, which are alike in cost, go to the ranks in such a way that the
// bin with most sequences comes where there are fewest. Where the ranks' numbers differ even so,
// the cheapest sequences are moved. Nothing if the limits leave no room for these. Every item is
// one sequence, and the ranks divide them.
std::optional<Filling> ShareCountsEqually(const Filling& filling);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_RANK_BINS_H_
