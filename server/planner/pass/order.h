// Stage 4, order: in which order micro-batches run.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_ORDER_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_ORDER_H_

#include <cstdint>
#include <vector>

#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// The cost of each micro-batch before rows are padded, on each of the ranks that share it.
std::vector<Cost> MicrobatchCosts(const Pass& pass, const Placement& placement);

// The costs of micro-batches once rows are padded; `costs` are those of MicrobatchCosts.
std::vector<Cost> RowCosts(const Pass& pass, const Placement& placement, std::vector<Cost> costs);

// The order that OrderMicrobatches gives the micro-batches of ranks with these costs: number
// result[m] goes to position m. Not for kPipeline.
std::vector<uint32_t> MicrobatchesInOrder(MicrobatchOrder order, const Placement& placement,
                                          std::vector<Cost> costs);

// Reorders slots by cost. On ranks, each rank's micro-batches are sorted by themselves; if all
// ranks have the same widths, whole slots are sorted by their costliest micro-batch. Where groups
// differ in size, whole slots are sorted by their costliest group, its row padded. Empty
// micro-batches, or slots, come last.
//
// kAsAssigned sorts nothing. kSmallAtBothEnds is ROLL's and verl's order: the even positions of the
// descending order, reversed, then the odd ones. kPipeline looks for the order in which the
// pipelines are done soonest, as long as the allowance affords it: for ranks by pass/rank_orders.h,
// for groups one order of the slots (time/find_order.h).
void OrderMicrobatches(const Pass& pass, MicrobatchOrder order, Placement& placement,
                       const Allowance& allowance = {});

// For solvers of ranks that may choose the order: puts every rank's costliest rows first, so that
// the rows of a slot are as alike as can be. Changes nothing if the pass asks for an order, in
// which micro-batches of equal cost then keep their places, nor with a pipeline, whose order the
// solver has found.
void PutCostliestRowsFirst(const Pass& pass, Placement& placement);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_ORDER_H_
