// Greedy starts for searches of rows that share prefixes.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_ROW_STARTS_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_ROW_STARTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/planner/request/allowance.h"
#include "server/planner/rows/row.h"
#include "server/planner/rows/row_items.h"
#include "server/planner/rows/row_search.h"
#include "server/planner/rows/tree_pieces.h"

namespace batchplan {

// The slots that pieces need if each shares with others only what all items share.
uint64_t SlotsOf(const Pass& pass, const RowItems& items, std::span<const TreePiece> pieces);

// Pieces balanced as if they shared only what all items share, by the solvers for batches without
// sharing (balance/lockstep.h, balance/accumulated.h). Nothing if these find no bins.
std::optional<std::vector<Row>> BalancePieces(const Pass& pass, const RowItems& items,
                                              const RowTerms& terms,
                                              std::span<const TreePiece> pieces,
                                              const Allowance& allowance);

// Into which bin a piece goes.
enum class PieceChoice {
  // The cheapest bin with room, or the bin with the piece's neighbours if that is then cheaper;
  // under kAccumulated of the rank that has least.
  kCheapest,
  // The bin to which it adds fewest tokens, of several the fullest. For few bins.
  kFewestTokens,
};

// Pieces go to bins in descending order of cost, or of tokens. A piece that fits no bin is cut.
// `rank_of`: the rank of each item, if given. Nothing if an item fits no bin, if there are too few
// items for bins that may not be empty, or once a stop is requested.
std::optional<std::vector<Row>> FillWithPieces(const RowItems& items, const RowTerms& terms,
                                               std::span<const TreePiece> pieces,
                                               PieceChoice choice,
                                               std::span<const uint32_t> rank_of,
                                               const Allowance& allowance);

// The items in depth-first order, cut into as many runs as there are bins so that the costliest is
// as cheap as can be, like AReaL-DTA. Nothing if the limits allow no such runs.
std::optional<std::vector<Row>> CutIntoRuns(const RowItems& items, const RowTerms& terms);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_STARTS_H_
