// Lower bounds where sequences share prefixes.

#ifndef BATCHPLAN_SERVER_PLANNER_RANKS_TREE_BOUNDS_H_
#define BATCHPLAN_SERVER_PLANNER_RANKS_TREE_BOUNDS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/pass/mini_batch_tree.h"
#include "server/planner/pass/pass.h"
#include "server/planner/pass/subtrees.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/manifest.h"

namespace batchplan {

// Bounds on every placement of sequences in rows of one pass, which has prefixes.
//
// They rest on copies. An edge of the compressed tree, from depth a to b, is laid in each row that
// holds anything below it, and at least in
//   - as many rows as any edge below it;
//   - ceil(W / (capacity - b)) rows, W the tokens of all edges below, each times its own copies: a
//     row has room for capacity - b tokens beside the path to b;
//   - as many rows as its leaves need bins of capacity - b, and as the limit on sequences needs.
class TreeBounds {
 public:
  TreeBounds(const Pass& pass, std::span<const SequenceIndex> sequences);

  // The fewest micro-batches. O(n).
  uint64_t FewestMicrobatches() const;

  // A lower bound on the time of `ranks` ranks for these sequences, without the fixed costs of
  // micro-batches.
  //
  // If no rank is busy for longer than T, then as many ranks as ceil(X / (T - c(b))) have something
  // below an edge, X the cost of the edges below, each times its own copies: every such rank pays
  // the path to b, c(b). T is too short if the edges, each so often, cost more than ranks * T. The
  // least T is found by bisection, each trial O(n).
  //
  // In lockstep also by head slots: if the m longest sequences need rows in k slots, each of the k
  // longest slots runs at least as long as the m-th longest sequence, and these slots hold no more
  // of the work than the densest edges that have room in them.
  Cost StepTime(uint32_t ranks, Synchronization synchronization) const;

 private:
  // An edge ends at an inner node of the tree, or at a leaf.
  struct Edge {
    uint32_t from = 0;
    uint32_t to = 0;
    double tokens = 0;
    double cost = 0;
  };

  void AddEdges();
  // The copies of each inner node's edge, by budget.
  void CountCopies();
  bool IsTooShort(double time, uint32_t ranks) const;
  double HeadSlots(uint32_t ranks) const;
  double CostTo(uint32_t depth) const;

  const Pass& pass_;
  const MiniBatchTree tree_;
  const Subtrees subtrees_;
  // Of nodes of subtrees_, and of leaves.
  std::vector<Edge> inner_;
  std::vector<Edge> leaves_;
  // By inner node.
  std::vector<double> copies_;
  // Sequences that run alone, which are the last leaves.
  uint32_t alone_ = 0;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_RANKS_TREE_BOUNDS_H_
