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

// The order that OrderMicrobatches gives ranks' micro-batches of these costs: number order[m] comes
// to position m. Not of kPipeline.
std::vector<uint32_t> MicrobatchesInOrder(MicrobatchOrder order, const Placement& placement,
                                          std::vector<Cost> costs);

// Reorders slots by cost: of ranks, each rank's by its micro-batches, or, where all ranks have the
// same widths, all ranks' alike by the costliest micro-batch of each slot; of groups that differ in
// size, whole slots by their costliest group, whose row is padded. Empty micro-batches, or slots,
// come last.
//
// kAsAssigned sorts nothing. kSmallAtBothEnds is ROLL's and verl's order: of the descending order
// the even positions, reversed, then the odd ones. kPipeline looks for the order in which the
// pipelines are done soonest, as long as the allowance affords it: for ranks as
// pass/rank_orders.h says, for groups one order of the slots (time/find_order.h).
void OrderMicrobatches(const Pass& pass, MicrobatchOrder order, Placement& placement,
                       const Allowance& allowance = {});

// The order of a solver for ranks that may choose one: every rank's costliest rows first, so that
// the rows of a slot are as alike as can be. Changes nothing where the pass asks for an order, in
// which micro-batches of equal cost keep their places, nor with a pipeline, whose order the solver
// has found.
void PutCostliestRowsFirst(const Pass& pass, Placement& placement);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_ORDER_H_
