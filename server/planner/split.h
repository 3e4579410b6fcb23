// Stage 2, split: the manifest into mini-batches, one gradient update each.

#ifndef BATCHPLAN_SERVER_PLANNER_SPLIT_H_
#define BATCHPLAN_SERVER_PLANNER_SPLIT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/index.h"
#include "server/planner/options.h"

namespace batchplan {

// Mini-batch k is sequences[offsets[k] .. offsets[k + 1]).
class MiniBatches {
 public:
  MiniBatches(std::vector<SequenceIndex> sequences, std::vector<size_t> offsets)
      : sequences_(std::move(sequences)), offsets_(std::move(offsets)) {}

  size_t size() const { return offsets_.size() - 1; }
  std::span<const SequenceIndex> operator[](size_t k) const {
    return std::span(sequences_).subspan(offsets_[k], offsets_[k + 1] - offsets_[k]);
  }

 private:
  std::vector<SequenceIndex> sequences_;
  std::vector<size_t> offsets_;
};

// Cuts sequences 0 .. planned_lengths.size() - 1 into mini-batches of exactly options.size, in
// order or shuffled by the seed, and then leaves out those whose planned length is 0 (dropped).
// InvalidArgument, naming both numbers, if the size does not divide; or if a mini-batch is left
// empty.
absl::StatusOr<MiniBatches> SplitIntoMiniBatches(std::span<const uint32_t> planned_lengths,
                                                 const MiniBatching& options);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_H_
