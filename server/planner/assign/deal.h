// Pack, then deal: the whole mini-batch into bins, the bins to ranks.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_DEAL_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_DEAL_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/allowance.h"
#include "server/planner/index.h"
#include "server/planner/items.h"
#include "server/planner/packing/bins.h"
#include "server/planner/pass_instance.h"
#include "server/planner/placement.h"
#include "server/planner/sequence_lists.h"

namespace batchplan {

// Slot s of rank r as bin bin_at[r * slots + s] of the items, or empty where there is no such bin;
// its width is the sum of its items' lengths, in the padded layout the longest.
MiniBatchPlacement PlacementOf(const PassInstance& pass, const Items& items, const Bins& bins,
                               std::span<const uint32_t> bin_at);

// Packs a mini-batch by the pass's packer into a number of bins that its rule allows, and deals
// them slot by slot (balance/deal_bins.h) by what the pass is balanced on. For the packed layout.
//
// InvalidArgument, beginning with `where`, if there are too few sequences for that many bins;
// Cancelled if a stop is requested.
absl::StatusOr<MiniBatchPlacement> PackAndDeal(const PassInstance& pass,
                                               std::span<const SequenceIndex> mini_batch,
                                               uint64_t seed, absl::string_view where,
                                               const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_DEAL_H_
