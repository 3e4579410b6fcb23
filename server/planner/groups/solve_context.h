// The solver of groups that differ in size.

#ifndef BATCHPLAN_SERVER_PLANNER_GROUPS_SOLVE_CONTEXT_H_
#define BATCHPLAN_SERVER_PLANNER_GROUPS_SOLVE_CONTEXT_H_

#include <cstddef>
#include <optional>
#include <span>

#include "server/planner/pass/context_problem.h"
#include "server/planner/request/allowance.h"
#include "server/planner/request/decision.h"

namespace batchplan {

struct SolvedContext {
  ContextSlots slots;
  // If the slots are one of the candidates, its number.
  std::optional<size_t> candidate = {};
  // Step times are in the unit of the problem's costs.
  TriedSlots tried = {};
};

// Slots for all items, within the limits, whose predicted time (context_time.h) is short. Their
// number is one that problem.slots allows, and no group is empty unless problem.allow_empty. They
// are in the order in which they are to run; in lockstep any order is as good.
//
// If problem.per_microbatch is 0, ever more slots would gain hundredths of a percent. So the fewest
// slots are chosen that are at most a thousandth slower than the fastest found.
//
// `candidates` are slots found elsewhere within the same limits; the result is not slower than any
// of them. None if nothing is found within the limits, or once a stop is requested. A pure function
// of its arguments; needs at least one item.
std::optional<SolvedContext> SolveContext(const ContextProblem& problem,
                                          std::span<const ContextSlots> candidates,
                                          const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_SOLVE_CONTEXT_H_
