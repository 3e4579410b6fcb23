// The balanced solver: micro-batches found together with their ranks.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_H_

#include <optional>
#include <span>

#include "server/planner/balance/lockstep_findings.h"
#include "server/planner/pass/mini_batch_items.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Packed micro-batches, each on any rank (balance/lockstep.h, balance/accumulated.h): as few as the
// constraints allow and are found, or more if that shortens the step. Nothing if groups bind items
// to ranks, or equal counts do (accumulated, without a pipeline); if there are fewer items than
// micro-batches needed; or once a stop is requested. `findings`, if any, are those of the
// mini-batch.
std::optional<MiniBatchPlacement> SolvePacked(const Pass& pass, const MiniBatchItems& mini_batch,
                                              const Allowance& allowance,
                                              LockstepFindings* findings);

// Padded micro-batches, each on any rank: runs of the mini-batch's sorted order (padded/splits.h),
// as few as the constraints allow, or more if that shortens the step. Nothing if groups bind items
// to ranks; if equal counts meet items that are lists, limited loads, or, if they are exact, a
// number that ranks do not divide; if there are fewer sequences than micro-batches needed; if no
// division is found; or if a stop is requested before the first.
std::optional<MiniBatchPlacement> SolvePadded(const Pass& pass, const MiniBatchItems& mini_batch,
                                              const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_SOLVE_H_
