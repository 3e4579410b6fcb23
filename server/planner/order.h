// Stage 4, order: in which order a rank runs its micro-batches.

#ifndef BATCHPLAN_SERVER_PLANNER_ORDER_H_
#define BATCHPLAN_SERVER_PLANNER_ORDER_H_

#include <cstdint>
#include <vector>

#include "server/planner/pass_instance.h"
#include "server/planner/placement.h"

namespace batchplan {

// The places of the micro-batches in OrderMicrobatches' order: the one at place m is to be number
// order[m].
std::vector<uint32_t> MicrobatchesInOrder(const PassInstance& pass, MicrobatchOrder order,
                                          const Placement& placement);

// Reorders the slots of every rank by the cost of its micro-batches; kAsAssigned changes nothing,
// and empty micro-batches stay last. Where ranks have the same widths all are reordered
// alike, by the costliest micro-batch of each slot. kSmallAtBothEnds is ROLL's and verl's order:
// descending, then the even positions reversed followed by the odd ones.
void OrderMicrobatches(const PassInstance& pass, MicrobatchOrder order, Placement& placement);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ORDER_H_
