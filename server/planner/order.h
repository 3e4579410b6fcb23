// Stage 4, order: in which order a rank runs its micro-batches.

#ifndef BATCHPLAN_SERVER_PLANNER_ORDER_H_
#define BATCHPLAN_SERVER_PLANNER_ORDER_H_

#include <cstdint>
#include <vector>

#include "server/planner/allowance.h"
#include "server/planner/pass.h"
#include "server/planner/placement.h"

namespace batchplan {

// What each micro-batch costs before rows are padded.
std::vector<Cost> MicrobatchCosts(const Pass& pass, const Placement& placement);

// What it costs once they are, of those costs.
std::vector<Cost> RowCosts(const Pass& pass, const Placement& placement, std::vector<Cost> costs);

// The micro-batches of `costs` in the order that OrderMicrobatches gives them: number order[m]
// comes to position m.
std::vector<uint32_t> MicrobatchesInOrder(MicrobatchOrder order, const Placement& placement,
                                          std::vector<Cost> costs);

// Reorders the slots of every rank by the cost of its micro-batches; kAsAssigned changes nothing,
// and empty micro-batches stay last. Where all ranks have the same widths they are reordered alike,
// by the costliest micro-batch of each slot. kSmallAtBothEnds is ROLL's and verl's order: of the
// descending order the even positions, reversed, then the odd ones. kPipeline looks for the order
// in which the slowest rank's pipeline is done soonest (pipeline/rank_orders.h), as long as the
// allowance affords that.
void OrderMicrobatches(const Pass& pass, MicrobatchOrder order, Placement& placement,
                       const Allowance& allowance = {});

// The order of a solver that may choose one: of every rank the costliest rows first, so that those
// which run at the same time are as alike as can be. Nothing is changed where the pass asks for
// another order, in which those of equal cost stay as they are, nor with a pipeline, whose
// micro-batches stand as the solver found them.
void PutCostliestRowsFirst(const Pass& pass, Placement& placement);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ORDER_H_
