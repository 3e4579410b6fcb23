// Stage 2, split: the manifest into mini-batches, one gradient update each.

#ifndef BATCHPLAN_SERVER_PLANNER_SPLIT_MINI_BATCHES_H_
#define BATCHPLAN_SERVER_PLANNER_SPLIT_MINI_BATCHES_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"
#include "server/planner/request/sequence_groups.h"

namespace batchplan {

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

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_MINI_BATCHES_H_
