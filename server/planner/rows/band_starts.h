// Starts for searches of rows: slots that are alike in the time of their phases.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_BAND_STARTS_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_BAND_STARTS_H_

#include <optional>
#include <vector>

#include "server/planner/rows/row.h"
#include "server/planner/rows/row_items.h"
#include "server/planner/rows/row_terms.h"

namespace batchplan {

// The items' order: by the time of their phases, or items with a phase first, by cost.
enum class BandOrder { kByPhases, kByCost };

// Cuts the ordered items into one band for each slot, of equally many tokens, so that few slots
// wait for a phase. Within a band the costliest item goes to the cheapest row with room; items that
// find no room go to the next band. Nothing if the last band has no room, if a row is empty that
// may not be, or if a slot exceeds a limit on a dealt load.
std::optional<std::vector<Row>> FillBands(const RowItems& items, const RowTerms& terms,
                                          BandOrder order);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_BAND_STARTS_H_
