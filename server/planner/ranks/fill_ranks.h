// Divides the share of each rank into micro-batches, equally many on all ranks.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_FILL_RANKS_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_FILL_RANKS_H_

#include "absl/status/statusor.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/ranks/search_context.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Fills every rank of one mini-batch with its share, list r of `shares`. All ranks get as many
// slots as the rank that needs most by the pass's packer or scan, rounded up to an allowed number.
// If a rank has fewer sequences than slots, all ranks get fewer slots, and the other ranks are
// packed tighter than the packer would. Micro-batches are left empty only if that is allowed and
// neither way works.
//
// InvalidArgument, beginning with context.where and naming the rank and the limits in conflict, if
// there is no such number of slots. Cancelled if a stop is requested.
absl::StatusOr<Placement> FillRanks(const Pass& pass, const SequenceLists& shares,
                                    const SearchContext& context);

// A quick test whether FillRanks may find a rank with fewer items than the slots that another rank
// needs, so that it refuses the shares or leaves micro-batches empty. False is certain: every rank
// then has at least as many sequences as any rank may need slots. True may be wrong; it is always
// the answer for padded passes, for groups in one micro-batch and with limited loads. O(n).
bool MayRunShort(const Pass& pass, const SequenceLists& shares);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_FILL_RANKS_H_
