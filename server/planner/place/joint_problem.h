// One problem whose slots suit several passes.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_JOINT_PROBLEM_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_JOINT_PROBLEM_H_

#include <optional>
#include <span>

#include "server/planner/pass/context_problem.h"
#include "server/planner/pass/pass.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// A problem whose slots are legal for every pass. `lead` is the problem of a pass that is not in
// `passes`; items and costs are its own. The sizes are those that all passes have, each with its
// least capacity, of which an item fills the largest part that it fills in any pass. None if no
// size is common to all, or once a stop is requested.
std::optional<ContextProblem> JointProblem(ContextProblem lead, const SequenceLists& items,
                                           std::span<const Pass* const> passes,
                                           const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_JOINT_PROBLEM_H_
