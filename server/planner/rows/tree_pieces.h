// Runs of items that share much, to be put into rows whole.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_TREE_PIECES_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_TREE_PIECES_H_

#include <cstdint>
#include <vector>

#include "server/planner/rows/row_items.h"

namespace batchplan {

// The items first .. first + count - 1.
struct TreePiece {
  uint32_t first = 0;
  uint32_t count = 0;
};

// The largest pieces; and the part of its cost that a subtree must save by standing together, or
// else its branches are pieces by themselves.
struct PieceLimits {
  uint64_t tokens = 0;
  uint32_t sequences = 0;
  double cost = 0;
  double worth = 0;
};

// The items as pieces that share much: whole subtrees, or if these exceed a limit, runs of their
// branches.
std::vector<TreePiece> CutIntoPieces(const RowItems& items, const PieceLimits& limits);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_TREE_PIECES_H_
