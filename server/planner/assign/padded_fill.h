// Padded micro-batches out of the items of one rank, or of all ranks at once.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_PADDED_FILL_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_PADDED_FILL_H_

#include <cstddef>
#include <optional>

#include "server/planner/assign/sorted_items.h"
#include "server/planner/items.h"
#include "server/planner/packing/bins.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// The fewest runs.
size_t DraftPadded(const PassInstance& pass, const SortedItems& items);

// Exactly `count` bins, at most the number of items, as the pass's scan makes them. Where `count`
// is below the draft's, which only groups that stay together can mend, bins that are no runs are
// searched for; nothing if none are found, and anything once a stop is requested.
std::optional<Bins> SettlePadded(const PassInstance& pass, const Items& items,
                                 const SortedItems& sorted, size_t count,
                                 const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_PADDED_FILL_H_
