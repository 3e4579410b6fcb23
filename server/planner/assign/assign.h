// Stage 3, assign: sequences to ranks and slots, for all passes of the request.

#ifndef BATCHPLAN_SERVER_PLANNER_ASSIGN_ASSIGN_H_
#define BATCHPLAN_SERVER_PLANNER_ASSIGN_ASSIGN_H_

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/assign/assignment.h"
#include "server/planner/options.h"
#include "server/planner/pass_instance.h"
#include "server/planner/sequence_lists.h"

namespace batchplan {

// Gives every sequence a rank, the same in all passes, and every pass its micro-batches: one
// Assignment a mini-batch for each pass, or a single one where the pass ignores mini-batches.
//
// The first pass's sharding decides on the ranks. Where that leaves some pass without a legal
// number of micro-batches, others are tried: the bins of a packed mini-batch dealt, equally many
// sequences on each rank, and at last, for a few sequences, every division there is. A sharding
// that names the rank of each sequence (STRIDE_SORTED), or their order (CONTIGUOUS), is kept.
//
// InvalidArgument, naming pass, mini-batch and the limits in conflict, if nothing legal is found;
// Cancelled if `stop` is requested.
absl::StatusOr<std::vector<std::vector<Assignment>>> AssignAll(std::span<const PassInstance> passes,
                                                               const Topology& topology,
                                                               const SequenceLists& mini_batches,
                                                               uint64_t seed,
                                                               const std::stop_token& stop);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_ASSIGN_ASSIGN_H_
