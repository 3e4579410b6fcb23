#include "server/planner/pass/mini_batch_tree.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace batchplan {

MiniBatchTree::MiniBatchTree(const Pass& pass, std::span<const SequenceIndex> sequences)
    : leaves_(sequences.begin(), sequences.end()) {
  const auto alone =
      std::stable_partition(leaves_.begin(), leaves_.end(),
                            [&](SequenceIndex sequence) { return !pass.RunsAlone(sequence); });
  const SharedPrefixes* prefixes = pass.prefixes();
  if (prefixes == nullptr) {
    std::sort(leaves_.begin(), alone);
    if (pass.groups_keep_microbatch()) {
      const SequenceLists together = pass.groups().Together({leaves_.begin(), alone});
      std::copy(together.all().begin(), together.all().end(), leaves_.begin());
    }
  } else {
    prefixes->Sort({leaves_.begin(), alone});
  }
  const auto beside = static_cast<size_t>(alone - leaves_.begin());
  std::vector<uint32_t> common(leaves_.size(), 0);
  lengths_.reserve(leaves_.size());
  for (uint32_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    lengths_.push_back(pass.aligned()[leaves_[leaf].value()]);
    if (prefixes == nullptr || leaf == 0 || leaf >= beside) continue;
    common[leaf] = prefixes->Common(leaves_[leaf - 1], leaves_[leaf]);
  }
  common_ = RangeMinima(std::move(common));
}

UniquePart UniqueOf(const Pass& pass, std::span<const SequenceIndex> sequences) {
  UniquePart unique;
  const CostFunction& cost = pass.computation();
  if (pass.prefixes() == nullptr) {
    for (const SequenceIndex sequence : sequences) {
      const uint32_t length = pass.aligned()[sequence.value()];
      unique.tokens += length;
      unique.computation += cost.OfComputation(length) + pass.loads().OfAll(sequence);
    }
    return unique;
  }
  const MiniBatchTree tree(pass, sequences);
  for (uint32_t leaf = 0; leaf < tree.size(); ++leaf) {
    unique.tokens += tree.length(leaf) - tree.common(leaf);
    unique.computation += cost.OfBranchComputation(tree.length(leaf), tree.common(leaf)) +
                          pass.loads().OfAll(tree[leaf]);
  }
  return unique;
}

}  // namespace batchplan
