// How long the slots of a pool are predicted to run, and a bound that no slots are below.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_CONTEXT_TIME_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_CONTEXT_TIME_H_

#include <cstdint>

#include "server/planner/allowance.h"
#include "server/planner/context/context_problem.h"

namespace batchplan {

// The cost of the group on each of its ranks: of its items, and per_microbatch, which an empty
// group has too.
Cost ContextGroupCost(const ContextProblem& problem, const ContextGroup& group);

// The time that the problem's clock (step_clock.h) gives slots in this order. Any time once a stop
// is requested.
Cost ContextTime(const ContextProblem& problem, const ContextSlots& slots,
                 const Allowance& allowance = {});

// Slots that every plan has at least: by the tokens and sequences that the groups of a slot hold.
uint64_t FewestContextSlots(const ContextProblem& problem);

// A step time that no slots are below. An item that runs on a group of c ranks for a time t has c t
// of the pool's rank-time. Let T be the time of the whole step without the fixed costs of its
// slots. As t is at most T, an item has at least w(T), the least c t among its sizes with t <= T.
// So pool * T >= sum of w(T), and as w falls with T, the least such T is found from below. In
// lockstep T is the sum over slots of the time of the costliest group, of which none is longer than
// T, and a slot holds pool times its costliest group at most; accumulated, a rank is busy for T at
// most and no group longer. These are malleable tasks (J. Turek, J. Wolf, P. Yu: Approximate
// Algorithms for Scheduling Parallelizable Tasks, SPAA 1992; W. Ludwig, P. Tiwari, SODA 1994). To
// this the fixed costs of the fewest slots are added.
Cost ContextBound(const ContextProblem& problem);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_CONTEXT_TIME_H_
