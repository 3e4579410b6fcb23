// Rows of shared prefixes made greedily, for searches to begin with.

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

// The slots that pieces take where each shares with others only what all items do.
uint64_t SlotsOf(const Pass& pass, const RowItems& items, std::span<const TreePiece> pieces);

// Pieces balanced as if they shared nothing but what all items do: by the solvers of batches that
// share nothing (balance/lockstep.h, balance/accumulated.h). Nothing if these find none.
std::optional<std::vector<Row>> BalancePieces(const Pass& pass, const RowItems& items,
                                              const RowTerms& terms,
                                              std::span<const TreePiece> pieces,
                                              const Allowance& allowance);

// Into which bin a piece goes.
enum class PieceChoice {
  // The cheapest with room, or the one that has what stands beside the piece if that is cheaper
  // then;
  // under kAccumulated of the rank that has least.
  kCheapest,
  // The one to which it adds fewest tokens, of several the fullest: for few bins.
  kFewestTokens,
};

// The costliest piece first, or the one with most tokens. A piece that has room nowhere is cut.
// `rank_of`: the rank of each item, if they are given. Nothing if an item has no room, if there are
// too few for bins that may not be empty, or once a stop is requested.
std::optional<std::vector<Row>> FillWithPieces(const RowItems& items, const RowTerms& terms,
                                               std::span<const TreePiece> pieces,
                                               PieceChoice choice,
                                               std::span<const uint32_t> rank_of,
                                               const Allowance& allowance);

// The items in depth-first order, cut into as many runs as there are bins so that the costliest is
// as cheap as can be, as AReaL-DTA cuts them. Nothing if the limits leave no such runs.
std::optional<std::vector<Row>> CutIntoRuns(const RowItems& items, const RowTerms& terms);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_ROW_STARTS_H_
