// One mini-batch placed in one pass, by the pass's sharding.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_PLACE_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_PLACE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/allowance.h"
#include "server/planner/cost.h"
#include "server/planner/manifest.h"
#include "server/planner/pass.h"
#include "server/planner/placement.h"

namespace batchplan {

inline constexpr Cost kNoStepTimeLimit = std::numeric_limits<Cost>::max();

// By the sharding that the pass names: packed and dealt, or units sharded and each rank's share
// filled. SHARDING_BALANCED here is an even sharding; PlaceBalanced has the solver's placements.
//
// InvalidArgument, beginning with `where`, if that gives no legal number of micro-batches;
// Cancelled if a stop is requested. OutOfRange if the shares of the ranks show, before they are
// filled, that the step takes `limit` or more; for the packed layout.
absl::StatusOr<MiniBatchPlacement> PlaceBySharding(const Pass& pass,
                                                   std::span<const SequenceIndex> mini_batch,
                                                   uint64_t seed, absl::string_view where,
                                                   const Allowance& allowance,
                                                   Cost limit = kNoStepTimeLimit);

// Packs a mini-batch by the pass's packer into a number of bins that its rule allows, and deals
// them slot by slot (balance/rank_bins.h) by what the pass is balanced on. For the packed layout.
//
// InvalidArgument, beginning with `where`, if there are too few sequences for that many bins;
// Cancelled if a stop is requested.
absl::StatusOr<MiniBatchPlacement> PackAndDeal(const Pass& pass,
                                               std::span<const SequenceIndex> mini_batch,
                                               uint64_t seed, absl::string_view where,
                                               const Allowance& allowance);

struct BalancedPlacements {
  // By step time, the shortest first.
  std::vector<MiniBatchPlacement> placements;
  // Whether the sharding of a reference gave no placement, which then is missed among them.
  bool missed = false;
};

// Placements of one mini-batch, the `most` with the least predicted step time, the least first: the
// balanced solver's own, where that may be slower than with less effort also what it finds then,
// and those of `references`, so that the best is never worse than they are; the references are left
// out at Effort::kFast, of large mini-batches at kDefault, and once the allowance is spent. The
// solver starts from the fewest micro-batches that the constraints allow and takes more where that
// shortens the step. Step times are those of step_time.h: putting the slots in that order is left
// to the caller.
//
// InvalidArgument, beginning with `where`, if there is none; Cancelled if a stop is requested.
absl::StatusOr<BalancedPlacements> PlaceBalanced(const Pass& pass, std::span<const Pass> references,
                                                 std::span<const SequenceIndex> mini_batch,
                                                 uint64_t seed, size_t most,
                                                 absl::string_view where,
                                                 const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_PLACE_H_
