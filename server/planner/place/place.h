// One mini-batch placed in one pass, by the pass's sharding.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_PLACE_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_PLACE_H_

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/balance/lockstep_findings.h"
#include "server/planner/pass/mini_batch_items.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/ranks/search_context.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

inline constexpr Cost kNoStepTimeLimit = std::numeric_limits<Cost>::max();

// Places by the sharding that the pass names: packs bins and deals them, or shards units and fills
// each rank's share. SHARDING_BALANCED is an even sharding here; the solver's placements are in
// PlaceBalanced.
//
// InvalidArgument, beginning with context.where, if that gives no legal number of micro-batches;
// Cancelled if a stop is requested. OutOfRange, in the packed layout, if the ranks' shares show
// before they are filled that the step is no shorter than `limit`.
absl::StatusOr<MiniBatchPlacement> PlaceBySharding(const Pass& pass,
                                                   const MiniBatchItems& mini_batch,
                                                   const SearchContext& context,
                                                   Cost limit = kNoStepTimeLimit);

// For the packed layout: packs a mini-batch by the pass's packer into an allowed number of bins,
// and deals them slot by slot (balance/rank_bins.h) by what the pass is balanced on.
//
// InvalidArgument, beginning with context.where, if there are too few sequences for that many bins;
// Cancelled if a stop is requested.
absl::StatusOr<MiniBatchPlacement> PackAndDeal(const Pass& pass, const MiniBatchItems& mini_batch,
                                               const SearchContext& context);

struct BalancedPlacements {
  // By step time, the shortest first.
  std::vector<MiniBatchPlacement> placements;
  // Whether the sharding of some reference gave no placement.
  bool missed = false;
};

// Up to `most` placements of one mini-batch with the least predicted step time, the least first.
// They are chosen from the balanced solver's placement, of several mini-batches also its placement
// with less effort if that may be faster, and those of `references`, so the best is never worse
// than any of these. References are left out at Effort::kFast, for large mini-batches at kDefault,
// and once the allowance is spent. The solver starts from the fewest micro-batches that the
// constraints allow and tries more as long as that shortens the step. Step times are those of
// step_time.h; the caller has to put the slots in that order. `findings`, if any, are those of the
// mini-batch.
//
// InvalidArgument, beginning with context.where, if there is no placement; Cancelled if a stop is
// requested.
absl::StatusOr<BalancedPlacements> PlaceBalanced(const Pass& pass, std::span<const Pass> references,
                                                 std::span<const SequenceIndex> mini_batch,
                                                 size_t most, const SearchContext& context,
                                                 LockstepFindings* findings);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_PLACE_H_
