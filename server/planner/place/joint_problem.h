// What several passes ask of slots that are the same in all of them.

#ifndef BATCHPLAN_SERVER_PLANNER_PLACE_JOINT_PROBLEM_H_
#define BATCHPLAN_SERVER_PLANNER_PLACE_JOINT_PROBLEM_H_

#include <optional>
#include <span>

#include "server/planner/pass/context_problem.h"
#include "server/planner/pass/pass.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// What can be in the slots of every pass: the items of `lead`, a problem of a pass that is none of
// `passes`, in groups of the sizes that all have. What an item takes of a group is the largest part
// that it takes in any pass, of the least capacity. Costs are those of `lead`. None if no sizes are
// left, and once a stop is requested.
std::optional<ContextProblem> JointProblem(ContextProblem lead, const SequenceLists& items,
                                           std::span<const Pass* const> passes,
                                           const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PLACE_JOINT_PROBLEM_H_
