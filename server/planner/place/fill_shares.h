// The share of each rank into micro-batches, as well as the shares allow.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_FILL_SHARES_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_FILL_SHARES_H_

#include "absl/status/statusor.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/ranks/search_context.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// If the planner chose the shares, just FillRanks (ranks/fill_ranks.h), since it may choose others.
// If the manifest gives the ranks, the placement with the least predicted step time of these, none
// of which has more empty micro-batches than FillRanks':
//   - with PACKER_BALANCED, what FillRanks and the packers of the reference presets make; in
//     lockstep also the micro-batches of all ranks made together with more slots, as long as each
//     more makes the step shorter by a thousandth;
//   - in the padded layout, what FillRanks makes, and the runs of each rank's sorted order for the
//     same number of slots, and for more where that makes the step shorter by a thousandth: those
//     with the least padding, those whose costliest is cheapest, and in lockstep these with their
//     cuts moved (padded/rank_splits.h);
//   - with any other packer, what FillRanks makes.
// The micro-batches of each rank are then sorted by descending cost, so that those of a slot are
// alike. Less is tried with Effort::kFast and once the allowance is spent.
//
// Errors as by FillRanks.
absl::StatusOr<Placement> FillShares(const Pass& pass, const SequenceLists& shares,
                                     const SearchContext& context);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_FILL_SHARES_H_
