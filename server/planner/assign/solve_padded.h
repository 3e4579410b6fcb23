// The balanced solver's padded micro-batches, found together with their ranks.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_SOLVE_PADDED_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_SOLVE_PADDED_H_

#include <optional>
#include <span>

#include "server/planner/allowance.h"
#include "server/planner/assign/deal.h"
#include "server/planner/index.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// Runs of the whole mini-batch's sorted order that any rank may take (padded/splits.h):
// as few as the constraints allow, or more where that shortens the step
// (more_slots.h). Nothing where sequences are bound to ranks by groups or equal counts, if there
// are too few for the micro-batches that are needed, or if `stop` is
// requested before there is a first division.
std::optional<MiniBatchPlacement> SolvePadded(const PassInstance& pass,
                                              std::span<const SequenceIndex> mini_batch,
                                              const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_SOLVE_PADDED_H_
