// The bins of one rank.

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_RANK_SHARE_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_RANK_SHARE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "server/planner/allowance.h"
#include "server/planner/effort.h"
#include "server/planner/packing/bins.h"

namespace batchplan {

// Raises the number of bins to `target`, at most the number of items, by halving the bin with the
// largest sum of sizes of those with two items or more, of equal ones the last, again and again.
// O(n log n).
Bins HalveLargest(std::span<const uint64_t> sizes, const Bins& bins, size_t target);

// The same where the sizes are the lengths.
Bins HalveLargest(const PackItems& items, const Bins& bins, size_t target);

// The same by giving each new bin one item, the cheapest by load of those that don't leave a bin
// empty: company for an item that is too costly to have any other. O(n log n).
Bins PeelCheapest(const PackItems& items, const Bins& bins, size_t target);

// The items of `share` in exactly `slots` bins of similar numbers of tokens; nothing if such bins
// break a limit. Less even once the allowance is spent or a stop requested. slots <= share.size().
// O(n log n).
std::optional<Bins> EvenBins(const PackItems& items, std::span<const uint32_t> share,
                             const BinLimits& limits, size_t slots, const Allowance& allowance);

// The same as tight as need be: EvenBins, or else what PackInto finds with the effort, halved.
std::optional<Bins> PackShare(const PackItems& items, std::span<const uint32_t> share,
                              const BinLimits& limits, size_t slots, Effort effort,
                              const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_RANK_SHARE_H_
