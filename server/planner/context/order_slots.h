// Stage 4 where slots divide a pool: in which order they run.

#ifndef BATCHPLAN_SERVER_PLANNER_CONTEXT_ORDER_SLOTS_H_
#define BATCHPLAN_SERVER_PLANNER_CONTEXT_ORDER_SLOTS_H_

#include "server/planner/allowance.h"
#include "server/planner/context/context_problem.h"
#include "server/planner/options.h"

namespace batchplan {

// Reorders slots by their slowest groups; kAsAssigned changes nothing. kPipeline, of a problem with
// a pipeline, takes the best of a few orders and improves it by as many simulations as the effort
// allows (pipeline/find_order.h). Slots without a sequence come last.
void OrderSlots(const ContextProblem& problem, MicrobatchOrder order, const Allowance& allowance,
                ContextSlots& slots);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_CONTEXT_ORDER_SLOTS_H_
