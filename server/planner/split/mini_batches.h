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

// The number of mini-batches of this many sequences in this many groups, at least one. An
// incomplete last mini-batch counts only if options.last allows it.
size_t MiniBatchesOf(const MiniBatching& options, size_t sequences, size_t groups);

// Cuts the manifest into mini-batches of exactly options.size sequences, or options.group_count
// groups, in order, shuffled by the seed, or ascending by length. The rest at the end is a smaller
// mini-batch, if options.last allows it. Dropped sequences, whose planned length is 0, are left out
// after that. Groups move whole: a group stands where its first member does, is shuffled as one
// unit, and counts as long as its longest sequence. Lengths are those of the manifest; equally long
// units keep their order.
//
// InvalidArgument: naming both numbers, if the size does not divide the number of sequences, or
// group_count that of groups, and the last mini-batch may not be smaller; naming the group, if a
// group does not fit the rest of a mini-batch; or if a mini-batch is left empty.
absl::StatusOr<SequenceLists> SplitIntoMiniBatches(const Manifest& manifest,
                                                   std::span<const uint32_t> planned_lengths,
                                                   const Groups& groups,
                                                   const MiniBatching& options);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_SPLIT_MINI_BATCHES_H_
