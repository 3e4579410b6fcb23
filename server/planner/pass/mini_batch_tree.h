// The sequences of a mini-batch as a forest of shared prefixes.

#ifndef BATCHPLAN_SERVER_PLANNER_PASS_MINI_BATCH_TREE_H_
#define BATCHPLAN_SERVER_PLANNER_PASS_MINI_BATCH_TREE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/pass/pass.h"
#include "server/planner/request/cost.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/range_minima.h"

namespace batchplan {

// Leaves are sequences, numbered in depth-first order (request/shared_prefixes.h). Sequences that
// run alone, and so share nothing, come last. O(n log n).
class MiniBatchTree {
 public:
  // Without prefixes every sequence is a tree, by position in the manifest; groups that keep to one
  // micro-batch stand together.
  MiniBatchTree(const Pass& pass, std::span<const SequenceIndex> sequences);

  uint32_t size() const { return static_cast<uint32_t>(leaves_.size()); }
  SequenceIndex operator[](uint32_t leaf) const { return leaves_[leaf]; }
  uint32_t length(uint32_t leaf) const { return lengths_[leaf]; }
  // The tokens that a leaf has in common with the one before it; 0 for the first.
  uint32_t common(uint32_t leaf) const { return common_[leaf]; }
  std::span<const uint32_t> commons() const { return common_.values(); }
  // The tokens that leaves a < b have in common.
  uint32_t Common(uint32_t a, uint32_t b) const { return common_.Of(a + 1, b); }

 private:
  std::vector<SequenceIndex> leaves_;
  std::vector<uint32_t> lengths_;
  RangeMinima common_;
};

// A mini-batch as if it were one row, and one for each sequence that runs alone: its tokens, and
// its cost without exchange in the scale of pass.computation(). No plan of it has less. Without
// prefixes these are the sums over its sequences, each aligned.
struct UniquePart {
  uint64_t tokens = 0;
  Cost computation = 0;
};
UniquePart UniqueOf(const Pass& pass, std::span<const SequenceIndex> sequences);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_PASS_MINI_BATCH_TREE_H_
