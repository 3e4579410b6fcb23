// Runs of items that share much, to be put into rows whole.

#ifndef BATCHPLAN_SERVER_PLANNER_ROWS_TREE_PIECES_H_
#define BATCHPLAN_SERVER_PLANNER_ROWS_TREE_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/pass/subtrees.h"
#include "server/planner/rows/row_items.h"

namespace batchplan {

// The items first .. first + count - 1.
struct TreePiece {
  uint32_t first = 0;
  uint32_t count = 0;

  friend bool operator==(const TreePiece&, const TreePiece&) = default;
};

// The largest pieces; and the part of its cost that a subtree must save by standing together, or
// else its branches are pieces by themselves.
struct PieceLimits {
  uint64_t tokens = 0;
  uint32_t sequences = 0;
  double cost = 0;
  double worth = 0;
};

// The ways to cut a mini-batch's items into pieces.
class TreePieces {
 public:
  // Views `items`.
  explicit TreePieces(const RowItems& items);

  // The items as pieces that share much: whole subtrees, or if these exceed a limit, runs of their
  // branches.
  std::vector<TreePiece> Cut(const PieceLimits& limits) const;

  // Cuts the costliest pieces until there are `count`, each where its costlier part is cheapest.
  // False if there are too few items.
  bool CutUpTo(size_t count, std::vector<TreePiece>& pieces) const;

 private:
  bool IsWorth(const Subtrees::Node& node, double worth) const;
  bool Fits(uint32_t begin, uint32_t end, const PieceLimits& limits) const;
  // Joins branches that fit, if that is worth it, into as few runs as possible, of about the same
  // cost. The numbers of branches that don't fit go to `open`.
  void CutNode(const Subtrees::Node& node, bool is_worth, const PieceLimits& limits,
               std::vector<uint32_t>& open, std::vector<TreePiece>& pieces) const;
  // Joins neighbouring branches into runs of at most `most` cost.
  std::vector<TreePiece> RunsOf(std::span<const TreePiece> branches, double most,
                                const PieceLimits& limits) const;
  // The cost of items begin .. end - 1 in a row of their own.
  double CostOf(uint32_t begin, uint32_t end) const {
    return costs_[end] - costs_[begin] + items_->path_cost()(commons_[begin]);
  }

  const RowItems* items_;
  // The tokens that each item has in common with the one before.
  std::vector<uint32_t> commons_;
  Subtrees subtrees_;
  // Sums up to each item.
  std::vector<uint64_t> tokens_ = {0};
  std::vector<double> costs_ = {0};
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ROWS_TREE_PIECES_H_
