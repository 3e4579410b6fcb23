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

// Halves bins until there are `target`, which is at most the number of items. Each time it halves
// the bin with the largest sum of sizes among those with at least two items, the last of equal
// ones. O(n log n).
Bins HalveLargest(std::span<const uint64_t> sizes, const Bins& bins, size_t target);

// HalveLargest by length.
Bins HalveLargest(const PackItems& items, const Bins& bins, size_t target);

// Adds bins of one item each until there are `target`. Each gets the item of least load whose own
// bin keeps another: such bins run beside items too costly to share a bin. O(n log n).
Bins PeelCheapest(const PackItems& items, const Bins& bins, size_t target);

// The items of `share` in exactly `slots` bins of similar numbers of tokens; nothing if such bins
// break a limit. Less even bins once the allowance is spent or a stop requested. Needs slots <=
// share.size(). O(n log n).
std::optional<Bins> EvenBins(const PackItems& items, std::span<const uint32_t> share,
                             const BinLimits& limits, size_t slots, const Allowance& allowance);

// The items of `share` in exactly `slots` bins: EvenBins, or if these break a limit, what PackInto
// finds with the effort, its largest bins halved.
std::optional<Bins> PackShare(const PackItems& items, std::span<const uint32_t> share,
                              const BinLimits& limits, size_t slots, Effort effort,
                              const Allowance& allowance);

// Deals bins, numbered as their `loads`, to ranks: slot s of rank r runs bin result[r * slots + s].
// A slot is the next `ranks` bins by descending load, so that bins that run at the same time are
// alike. Within a slot the heaviest bin goes to the rank with the least load so far. Numbers in
// loads.size() .. ranks * slots - 1 stand for empty bins. O(bins log bins).
std::vector<uint32_t> DealBins(std::span<const uint64_t> loads, uint32_t ranks, size_t slots);

// Gives every rank the same number of sequences: `filling` with its bins renumbered, so that slot s
// of rank r is bin r * slots + s. The bins of a slot are alike in cost; the one with most sequences
// goes to the rank with fewest so far. If the ranks' numbers still differ, the cheapest sequences
// are moved. Nothing if the limits leave no room for them. Needs items of one sequence each, whose
// number the ranks divide.
std::optional<Filling> ShareCountsEqually(const Filling& filling);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_RANK_BINS_H_
