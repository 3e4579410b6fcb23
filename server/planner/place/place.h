// One mini-batch placed in one pass, by the pass's sharding.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_PLACE_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_PLACE_H_

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/pass/mini_batch_items.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/ranks/search_context.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

inline constexpr Cost kNoStepTimeLimit = std::numeric_limits<Cost>::max();

// By the sharding that the pass names: packed and dealt, or units sharded and each rank's share
// filled. SHARDING_BALANCED here is an even sharding; PlaceBalanced has the solver's placements.
//
// InvalidArgument, beginning with context.where, if that gives no legal number of micro-batches;
// Cancelled if a stop is requested. OutOfRange if the shares of the ranks show, before they are
// filled, that the step is no shorter than `limit`; for the packed layout.
absl::StatusOr<MiniBatchPlacement> PlaceBySharding(const Pass& pass,
                                                   const MiniBatchItems& mini_batch,
                                                   const SearchContext& context,
                                                   Cost limit = kNoStepTimeLimit);

// Packs a mini-batch by the pass's packer into a number of bins that its rule allows, and deals
// them slot by slot (balance/rank_bins.h) by what the pass is balanced on. For the packed layout.
//
// InvalidArgument, beginning with context.where, if there are too few sequences for that many bins;
// Cancelled if a stop is requested.
absl::StatusOr<MiniBatchPlacement> PackAndDeal(const Pass& pass, const MiniBatchItems& mini_batch,
                                               const SearchContext& context);

struct BalancedPlacements {
  // By step time, the shortest first.
  std::vector<MiniBatchPlacement> placements;
  // Whether the sharding of a reference gave no placement, which then is missed among them.
  bool missed = false;
};

// Up to `most` placements of one mini-batch with the least predicted step time, the least first.
// They are chosen from the balanced solver's own placement, its placement with less effort where
// that may be faster, and those of `references`, so that the best is never worse than any of these.
// The references are left out at Effort::kFast, for large mini-batches at kDefault, and once the
// allowance is spent. The solver starts from the fewest micro-batches that the constraints allow
// and tries more as long as that shortens the step. Step times are those of step_time.h: putting
// the slots in that order is left to the caller.
//
// InvalidArgument, beginning with context.where, if there is none; Cancelled if a stop is
// requested.
absl::StatusOr<BalancedPlacements> PlaceBalanced(const Pass& pass, std::span<const Pass> references,
                                                 std::span<const SequenceIndex> mini_batch,
                                                 size_t most, const SearchContext& context);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_PLACE_H_
