// A batch whose sequences begin alike, as the tree of its tokens. Used by planners of the bench
// itself.

#ifndef BATCHPLAN_TESTS_BENCH_PREFIX_TREE_H_
#define BATCHPLAN_TESTS_BENCH_PREFIX_TREE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/bench/prefix_batches.h"

namespace batchplan::bench {

// The cost of a sequence's first `depth` tokens by the default cost model, in units of 1/24576
// token.
constexpr uint64_t PathCost(uint64_t depth) { return 24576 * depth + depth * depth; }

// The leaves are the sequences, numbered depth first: sequences with most in common are neighbours,
// prefixes come before their extensions, and otherwise the order of the batch decides. O(n^2)
// memory.
class PrefixTree {
 public:
  explicit PrefixTree(const PrefixBatch& batch);

  uint32_t size() const { return static_cast<uint32_t>(sequences_.size()); }
  // The sequence of a leaf, and the leaf of a sequence.
  uint32_t sequence(uint32_t leaf) const { return sequences_[leaf]; }
  uint32_t leaf(uint32_t sequence) const { return leaves_[sequence]; }
  uint32_t length(uint32_t leaf) const { return lengths_[leaf]; }
  uint32_t group(uint32_t leaf) const { return groups_[leaf]; }
  // The number of tokens that two leaves have in common; for a = b, its length.
  uint32_t Common(uint32_t a, uint32_t b) const { return common_[a * lengths_.size() + b]; }
  // The number of tokens that all leaves have in common.
  uint32_t common() const { return Common(0, size() - 1); }

 private:
  std::vector<uint32_t> sequences_;
  std::vector<uint32_t> leaves_;
  std::vector<uint32_t> lengths_;  // by leaf
  std::vector<uint32_t> groups_;   // by leaf
  std::vector<uint32_t> common_;   // a square
};

// A micro-batch to which leaves are added.
class PrefixRow {
 public:
  explicit PrefixRow(const PrefixTree& tree) : tree_(&tree) {}

  std::span<const uint32_t> leaves() const { return leaves_; }  // ascending
  bool empty() const { return leaves_.empty(); }
  uint64_t tokens() const { return tokens_; }
  uint64_t cost() const { return cost_; }
  // How many tokens of a leaf the row does not have yet.
  uint64_t NewTokens(uint32_t leaf) const {
    return Added(leaf, [](uint64_t x) { return x; });
  }
  uint64_t NewCost(uint32_t leaf) const { return Added(leaf, PathCost); }
  void Add(uint32_t leaf);
  // The sequences of its leaves.
  std::vector<uint32_t> Sequences() const;

 private:
  template <typename Of>
  uint64_t Added(uint32_t leaf, Of of) const;

  const PrefixTree* tree_;
  std::vector<uint32_t> leaves_;
  uint64_t tokens_ = 0;
  uint64_t cost_ = 0;
};

template <typename Of>
uint64_t PrefixRow::Added(uint32_t leaf, Of of) const {
  // The tokens of the leaf that the row has are those that it shares with one of its neighbours.
  uint64_t common = 0;
  const auto after = std::ranges::lower_bound(leaves_, leaf);
  if (after != leaves_.end()) common = tree_->Common(leaf, *after);
  if (after != leaves_.begin()) {
    common = std::max<uint64_t>(common, tree_->Common(leaf, *(after - 1)));
  }
  return of(tree_->length(leaf)) - of(common);
}

}  // namespace batchplan::bench

#endif  // BATCHPLAN_TESTS_BENCH_PREFIX_TREE_H_
