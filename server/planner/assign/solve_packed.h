// The balanced solver's packed micro-batches, found together with their ranks.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_SOLVE_PACKED_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_SOLVE_PACKED_H_

#include <optional>
#include <span>

#include "server/planner/allowance.h"
#include "server/planner/assign/deal.h"
#include "server/planner/index.h"
#include "server/planner/pass_instance.h"

namespace batchplan {

// Micro-batches that any rank may take (balance/lockstep.h, balance/accumulated.h): as few as the
// constraints allow and are found, or more where that shortens the step (more_slots.h).
// Nothing where items are bound to ranks by groups or, without lockstep, by equal counts; if there
// are too few for the micro-batches that are needed; or if a stop is requested.
std::optional<MiniBatchPlacement> SolvePacked(const PassInstance& pass,
                                              std::span<const SequenceIndex> mini_batch,
                                              const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_SOLVE_PACKED_H_
