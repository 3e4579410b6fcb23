// Stage 4, order: in which order a rank runs its micro-batches.

#ifndef BATCHPLAN_SERVER_PLANNER_ORDER_H_
#define BATCHPLAN_SERVER_PLANNER_ORDER_H_

#include "server/planner/assign.h"
#include "server/planner/items.h"
#include "server/planner/options.h"

namespace batchplan {

// Reorders the slots of every rank by the cost of its micro-batches; kAsAssigned changes nothing.
// kSmallAtBothEnds is ROLL's and verl's order: descending, then the even positions reversed
// followed by the odd ones.
void OrderMicrobatches(MicrobatchOrder order, const Items& items, Assignment& assignment);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ORDER_H_
