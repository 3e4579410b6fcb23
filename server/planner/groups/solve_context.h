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
  // The number of the candidate that these are, unchanged.
  std::optional<size_t> candidate = {};
  // Step times are in the unit of the problem's costs.
  TriedSlots tried = {};
};

// Slots in which every item stands once, within the capacities, and whose predicted time
// (context_time.h) is short. Their number is one that problem.slots allows, and no group is empty
// unless problem.allow_empty. In the order in which they are to run, which accumulated
// synchronization needs; in lockstep any other does as well.
//
// Where problem.per_microbatch is 0, more and more slots would be had for hundredths of a percent:
// there fewer are chosen that take at most a thousandth longer than the fastest found.
//
// `candidates` are slots found elsewhere, within the same limits: the result is none slower than
// any of them. None if nothing is found that keeps the limits, and once a stop is requested. A pure
// function of what it is given; needs at least one item.
std::optional<SolvedContext> SolveContext(const ContextProblem& problem,
                                          std::span<const ContextSlots> candidates,
                                          const Allowance& allowance);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_GROUPS_SOLVE_CONTEXT_H_
