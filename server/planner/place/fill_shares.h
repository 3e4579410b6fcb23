// The share of each rank into micro-batches, as well as the shares allow.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_FILL_SHARES_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_FILL_SHARES_H_

#include "absl/status/statusor.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/ranks/search_context.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// FillRanks (ranks/fill_ranks.h) if the planner chose the shares, since it may choose other ones;
// SearchShares if the manifest gives the ranks.
//
// Errors as by FillRanks.
absl::StatusOr<Placement> FillShares(const Pass& pass, const SequenceLists& shares,
                                     const SearchContext& context);

// The placement with the least predicted step time of the following that have no more empty
// micro-batches than FillRanks':
//   - with PACKER_BALANCED, what FillRanks and the packers of the reference presets make; in
//     lockstep also the micro-batches of all ranks made together, with more slots as long as each
//     slot more shortens the step by a thousandth;
//   - in the padded layout, what FillRanks makes, and runs of each rank's sorted order for as many
//     slots, and for more if that shortens the step by a thousandth: the runs with the least
//     padding, those whose costliest is cheapest, and in lockstep both with their cuts moved
//     (padded/rank_splits.h);
//   - with any other packer, what FillRanks makes.
// The micro-batches of each rank are then sorted by descending cost, so that those of a slot are
// alike. With Effort::kFast, and once the allowance is spent, less is tried.
//
// Errors as by FillRanks.
absl::StatusOr<Placement> SearchShares(const Pass& pass, const SequenceLists& shares,
                                       const SearchContext& context);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_FILL_SHARES_H_
