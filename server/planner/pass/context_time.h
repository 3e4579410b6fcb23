// How long the slots of a pool are predicted to run, and a bound that no slots are below.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_CONTEXT_TIME_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_CONTEXT_TIME_H_

#include <cstdint>

#include "server/planner/pass/context_problem.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// The cost of the group on each of its ranks: the costs of its items, whole_row if it has items and
// rows are whole, and per_microbatch, which an empty group has too.
Cost ContextGroupCost(const ContextProblem& problem, const ContextGroup& group);

// The time of slots in this order by the problem's clock (step_clock.h). Any value once a stop is
// requested.
Cost ContextTime(const ContextProblem& problem, const ContextSlots& slots,
                 const Allowance& allowance = {});

// The fewest slots of any plan, by the tokens and sequences that the groups of a slot hold.
uint64_t FewestContextSlots(const ContextProblem& problem);

// A step time that no slots are below.
//
// An item that runs on a group of c ranks for a time t has c t of the pool's rank-time: at least w,
// the least of its sizes, and at least w(x), the least of its sizes with t <= x, if no group runs
// longer than x. These are malleable tasks (J. Turek, J. Wolf, P. Yu: Approximate Algorithms for
// Scheduling Parallelizable Tasks, SPAA 1992; W. Ludwig, P. Tiwari, SODA 1994).
//
// Accumulated, let x be the step time without the fixed costs of its slots. No group runs longer,
// and no rank: pool * x >= sum of w(x).
//
// In lockstep, let x be the time of the longest slot, and T the sum of all slots' times. Every slot
// has pool times its own time, so that pool * T >= sum of w(x). The longest slot has room for some
// items only. Let R be the largest sum of w of items, and of a fraction of one, that have room
// there. The other slots hold the rest: pool * (T - x) >= sum of w - R. So long items either make
// one slot long, in addition to the time of the others, or are on larger groups and exchange more.
//
// The first bound falls as x grows and the second rises. T is at least where they meet. The fixed
// costs of the fewest slots are added. On pipelines this is the work that StepClock::Bound is asked
// about. Items that fit no size are left out, and limits on sequences are not looked at.
// O(n sizes log n).
//
// All this holds for the items' whole costs, however rows are padded. If every row is as wide as
// its capacity (problem.full_rows), there is a second bound. Let r be the least whole_row of any
// size: a group with items runs at least for r and what its items add (ContextSize::Added). So the
// same argument holds for what items add, with r as one more fixed cost: in lockstep of every slot
// with items, whose groups add theirs within the slot's time beyond r; accumulated of every slot if
// no group is empty, as every rank then has r in each. From this bound a unit is deducted for each
// sequence, since costs are rounded down one by one: for a group with n sequences, whole_row and
// what its items add exceed its micro-batch with its tail by less than n + 1 units. The greater of
// the two bounds is returned.
Cost ContextBound(const ContextProblem& problem);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_CONTEXT_TIME_H_
