// The share of each rank into micro-batches, equally many on all ranks.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_FILL_RANKS_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_FILL_RANKS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/allowance.h"
#include "server/planner/assign/fill_bins.h"
#include "server/planner/manifest.h"
#include "server/planner/pass.h"
#include "server/planner/placement.h"

namespace batchplan {

// Fills every rank of one mini-batch: list r of `shares` is what rank r has, and `seed` is the
// mini-batch's. Every rank gets as many slots as the rank that needs most by the pass's packer or
// scan, rounded up to an allowed number. Where some rank has too few sequences for so many, there
// are fewer slots, and the others are packed tighter than the packer would. Micro-batches are left
// empty only where that is allowed and neither way works.
//
// InvalidArgument, beginning with `where` and naming the rank and the limits in conflict, if there
// is no such number of slots. Cancelled if a stop is requested.
absl::StatusOr<Placement> FillRanks(const Pass& pass, const SequenceLists& shares, uint64_t seed,
                                    absl::string_view where, PackingWork work,
                                    const Allowance& allowance);

// Whether FillRanks may find a rank with fewer items than the slots that another rank needs, so
// that it refuses the shares or leaves micro-batches empty. False only where each has twice as many
// sequences as the tokens of any need micro-batches, or the limit on sequences does; true of what
// can't be told so soon, padded passes and groups in one micro-batch. O(n).
bool MayRunShort(const Pass& pass, const SequenceLists& shares);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_FILL_RANKS_H_
