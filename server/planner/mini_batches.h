// Stage 2, split: the manifest into mini-batches, one gradient update each; groups, which stay
// together, and the seeds of random choices.

#ifndef BATCHPLAN_SERVER_PLANNER_MINI_BATCHES_H_
#define BATCHPLAN_SERVER_PLANNER_MINI_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/manifest.h"
#include "server/planner/options.h"
#include "server/planner/packing/orders.h"

namespace batchplan {

// The sequences that stay together, GRPO prompts or DPO pairs, numbered by first appearance; no
// groups where the policy ignores them or the manifest has none.
class Groups {
 public:
  Groups(const Manifest& manifest, GroupPolicy policy);

  bool empty() const { return group_of_.empty(); }
  size_t size() const { return size_; }
  uint32_t operator[](SequenceIndex sequence) const { return group_of_[sequence.value()]; }

  // `sequences` as one list a group, in the order of first appearance; Singles where there are no
  // groups.
  SequenceLists Together(std::span<const SequenceIndex> sequences) const;

 private:
  std::vector<uint32_t> group_of_;  // by manifest position
  size_t size_ = 0;
};

// Cuts the manifest into mini-batches of exactly options.size sequences, in order, shuffled by the
// seed, or ascending by length, and then leaves out those whose planned length is 0 (dropped).
// Groups are moved as a whole: they stand where their first member does, are shuffled as one, or
// are as long as their longest sequence. Lengths are those of the manifest; of equal ones the first
// stays the first.
//
// InvalidArgument, naming both numbers, if the size does not divide; naming the group, if one does
// not end where its mini-batch does; or if a mini-batch is left empty.
absl::StatusOr<SequenceLists> SplitIntoMiniBatches(const Manifest& manifest,
                                                   std::span<const uint32_t> planned_lengths,
                                                   const Groups& groups,
                                                   const MiniBatching& options);

// The seeds of random choices, each a stream of its own of the request's seed: for the order of the
// manifest.
inline uint64_t ManifestSeed(uint64_t request_seed) { return MixSeed(request_seed, 0); }

// For mini-batch k.
inline uint64_t MiniBatchSeed(uint64_t request_seed, size_t mini_batch) {
  return MixSeed(request_seed, mini_batch + 1);
}

// For one rank of a mini-batch.
inline uint64_t RankSeed(uint64_t mini_batch_seed, uint32_t rank) {
  return MixSeed(mini_batch_seed, rank);
}

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_MINI_BATCHES_H_
