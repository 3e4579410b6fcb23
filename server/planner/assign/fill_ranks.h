// Stage 3, assign, its second half: the share of each rank into micro-batches, equally many on all.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_FILL_RANKS_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_FILL_RANKS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/allowance.h"
#include "server/planner/assign/fill_bins.h"
#include "server/planner/manifest.h"
#include "server/planner/pass_instance.h"
#include "server/planner/placement.h"

namespace batchplan {

// Fills every rank of one mini-batch: list r of `shares` is what rank r has. The number of slots is
// the most that a rank's packer or scan makes, rounded up by the pass's rule; where a rank has too
// few sequences for that, the others are packed tighter than the packer would. Empty micro-batches
// only where they are allowed and a rank's sequences don't suffice. `seed` is the mini-batch's.
//
// InvalidArgument, beginning with `where` and naming the rank and the limits in conflict, if there
// is no such number of slots. Cancelled if a stop is requested.
absl::StatusOr<Placement> FillRanks(const PassInstance& pass, const SequenceLists& shares,
                                    uint64_t seed, absl::string_view where, PackingWork work,
                                    const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_FILL_RANKS_H_
