#include "tests/bench/prefix_tree.h"

#include <algorithm>
#include <numeric>

namespace batchplan::bench {

PrefixTree::PrefixTree(const PrefixBatch& batch) {
  const size_t n = batch.lengths.size();
  // First computed for sequences, each compared with earlier ones. If i shares its prefix with s,
  // then i and j < i have in common what j and s have, up to the length of that prefix.
  std::vector<uint32_t> common(n * n, 0);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t with = batch.shared_with[i];
    for (size_t j = 0; j < i; ++j) {
      common[i * n + j] = common[j * n + i] =
          std::min(batch.shared_prefixes[i], common[with * n + j]);
    }
    common[i * n + i] = batch.lengths[i];
  }
  // Each sequence follows the last leaf among those with which it has most in common; but a prefix
  // of other leaves comes before them.
  for (uint32_t i = 0; i < n; ++i) {
    uint32_t most = 0;
    for (const uint32_t leaf : sequences_) most = std::max(most, common[i * n + leaf]);
    const auto shares = [&](uint32_t leaf) { return most > 0 && common[i * n + leaf] == most; };
    auto at = sequences_.end();
    if (most > 0) {
      at = std::ranges::find_if(sequences_, shares);
      // A sequence that ends there, such as a copy, comes before those that extend it.
      const auto ends = [&](uint32_t leaf) { return shares(leaf) && batch.lengths[leaf] == most; };
      if (most == batch.lengths[i]) {
        while (at != sequences_.end() && ends(*at)) ++at;
      } else {
        while (at != sequences_.end() && shares(*at)) ++at;
      }
    }
    sequences_.insert(at, i);
  }
  leaves_.resize(n);
  common_.resize(n * n);
  for (uint32_t a = 0; a < n; ++a) {
    leaves_[sequences_[a]] = a;
    lengths_.push_back(batch.lengths[sequences_[a]]);
    groups_.push_back(batch.group_ids[sequences_[a]]);
    for (uint32_t b = 0; b < n; ++b) common_[a * n + b] = common[sequences_[a] * n + sequences_[b]];
  }
}

void PrefixRow::Add(uint32_t leaf) {
  tokens_ += NewTokens(leaf);
  cost_ += NewCost(leaf);
  leaves_.insert(std::ranges::lower_bound(leaves_, leaf), leaf);
}

std::vector<uint32_t> PrefixRow::Sequences() const {
  std::vector<uint32_t> sequences;
  for (const uint32_t leaf : leaves_) sequences.push_back(tree_->sequence(leaf));
  return sequences;
}

}  // namespace batchplan::bench
