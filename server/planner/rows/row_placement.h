// The result of a row search as a placement.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_ROW_PLACEMENT_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_ROW_PLACEMENT_H_

#include "server/planner/pass/mini_batch_tree.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/placement.h"
#include "server/planner/rows/row_items.h"
#include "server/planner/rows/row_search.h"

namespace batchplan {

// Rows that may go to any slot are dealt so that the rows of a slot are alike. A rank's empty
// micro-batches are its last.
Placement PlacementOf(const Pass& pass, const MiniBatchTree& tree, const RowItems& items,
                      const RowSearch& search);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_PLACEMENT_H_
