#include "server/planner/ranks/tree_bounds.h"

#include <algorithm>

#include "server/planner/pass/mini_batch_tree.h"

namespace batchplan {

uint64_t FewestTreeMicrobatches(const Pass& pass, std::span<const SequenceIndex> sequences) {
  const MiniBatchTree tree(pass, sequences);
  uint64_t alone = 0;
  uint64_t tokens = 0;
  for (uint32_t leaf = 0; leaf < tree.size(); ++leaf) {
    if (pass.RunsAlone(tree[leaf])) {
      ++alone;
    } else {
      tokens += tree.length(leaf) - tree.common(leaf);
    }
  }
  const uint64_t capacity = pass.bin_limits().capacity;
  const uint64_t most = pass.bin_limits().max_sequences;
  const uint64_t by_tokens = (tokens + capacity - 1) / capacity;
  const uint64_t by_count = (tree.size() - alone + most - 1) / most;
  return alone + std::max(by_tokens, by_count);
}

Cost TreeBound(const Pass& pass, std::span<const SequenceIndex> sequences, uint32_t ranks) {
  const MiniBatchTree tree(pass, sequences);
  const CostFunction& cost = pass.cost();
  Cost all = 0;
  Cost costliest = 0;
  for (uint32_t leaf = 0; leaf < tree.size(); ++leaf) {
    // Where the exchange is hidden, plans that cut paths elsewhere may have less of it.
    all += cost.overlaps() ? cost.OfBranchComputation(tree.length(leaf), tree.common(leaf))
                           : cost.OfBranch(tree.length(leaf), tree.common(leaf));
    costliest = std::max(costliest, cost.OfSequence(tree.length(leaf)));
  }
  return std::max(costliest, (all + ranks - 1) / ranks);
}

}  // namespace batchplan
