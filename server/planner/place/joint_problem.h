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

// The problem of slots that every pass can have. Items and costs are those of `lead`, the problem
// of a pass that is none of `passes`. Groups have the sizes that all passes have, and of each the
// least capacity. An item fills the largest part of it that it fills in any pass. None if no sizes
// are left, and once a stop is requested.
std::optional<ContextProblem> JointProblem(ContextProblem lead, const SequenceLists& items,
                                           std::span<const Pass* const> passes,
                                           const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_JOINT_PROBLEM_H_
