// Rows whose slots are alike in what their phases take, for searches to begin with.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_BAND_STARTS_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_BAND_STARTS_H_

#include <optional>
#include <vector>

#include "server/planner/rows/row.h"
#include "server/planner/rows/row_items.h"
#include "server/planner/rows/row_terms.h"

namespace batchplan {

// What comes first: what phases take most of, or any item that a phase takes something of, the
// costliest first.
enum class BandOrder { kByPhases, kByCost };

// Items in that order, cut into a band of equally many tokens for each slot, so that few slots wait
// for a phase. Within a band the costliest item goes to the row that costs least and has room; what
// has room nowhere is the next band's. Nothing if the last band has no room, a row nothing where
// none may be empty, or a slot more dealt than it may have.
std::optional<std::vector<Row>> FillBands(const RowItems& items, const RowTerms& terms,
                                          BandOrder order);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_BAND_STARTS_H_
